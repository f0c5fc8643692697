#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <unordered_map>

#include "cxtrain/base/align.h"

namespace cxtrain {

/// Large blocks of host memory, kept for the next who asks for one of about that size.
///
/// A training step frees and asks for the same sizes over and over; giving them back to the kernel each time
/// costs a page fault for every 4 KiB, and splitting them among smaller requests, as a general heap does,
/// loses them. The cache never makes a process hold more than its own peak of live blocks plus a half: before
/// it maps new memory it lets go of what was freed longest ago. (With a quarter a convolutional network maps
/// anew, and the kernel clears, 150 MB in each step: 4 to 9 % of its time.) All methods may be called from
/// any thread.
class BlockCache {
 public:
  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// Every block begins on a page: an address that does not is none of ours.
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t whole_pages(std::size_t bytes) { return round_up(bytes, kPage); }

  /// At least `bytes` bytes, and at most an eighth more than that rounded up to pages; uninitialised. Throws
  /// std::bad_alloc.
  void* take(std::size_t bytes);
  /// Takes a block back; false, and nothing done, when the address is none of ours.
  bool give(void* data) noexcept;

  /// Gives all free blocks back to the kernel, and forgets the peak.
  void clear() noexcept;

  std::size_t cached_bytes() const {
    const std::lock_guard lock(mutex_);
    return cached_;
  }
  std::size_t live_bytes() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }

 private:
  struct Block {
    void* data;
    std::size_t bytes;
  };
  void make_room(std::size_t bytes);
  void unmap_oldest() noexcept;

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> used_;  ///< bytes of each block given out
  std::list<Block> free_;                        ///< in the order in which they were freed; few
  std::size_t cached_ = 0, live_ = 0, peak_live_ = 0;
};

}  // namespace cxtrain
