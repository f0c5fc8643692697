#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cxtrain/memory/shared_memory.h"

namespace cxtrain {

/// Memory cut into places for tensors of known sizes, to be used while `UseMemPool` says so (torch's word for
/// the same on GPUs: torch.cuda.MemPool). Whoever holds the memory's other mappings sees the tensors that lie
/// in it.
///
/// Each size has as many places as it was named, and one more for a passing tensor of that size. For one
/// thread at a time, which LibTorch's allocator sees to; `contains` for any.
class MemPool {
 public:
  /// Smaller tensors are not worth a page of their own: they get no place.
  static constexpr std::size_t kSmallest = std::size_t{32} << 10;

  /// What a pool for tensors of `sizes` bytes takes; 0 where all are small.
  static std::size_t bytes_for(std::span<const std::size_t> sizes);
  /// `memory` has `bytes_for(sizes)` bytes, and lives as long as the pool.
  MemPool(std::shared_ptr<SharedMemory> memory, std::span<const std::size_t> sizes);
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;

  /// A place of exactly `bytes`; null where the pool has none, or none left.
  void* take(std::size_t bytes);
  void give(void* place) noexcept;

  bool contains(const void* address) const noexcept {
    return address >= memory_->data() && address < memory_->data() + memory_->bytes();
  }
  /// Places that are taken.
  std::size_t taken() const { return taken_; }

 private:
  struct Size {
    std::size_t bytes;
    std::byte* end;
    std::vector<void*> free;  ///< the last one given back is at the end, and next: caches may still hold it
  };

  std::shared_ptr<SharedMemory> memory_;
  std::vector<Size> sizes_;  ///< ascending
  std::size_t taken_ = 0;
};

}  // namespace cxtrain
