#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/comm/node/shared_memory.h"

namespace cxtrain {

/// A flat array with one copy in memory for all ranks of a node. Each rank owns a share: an equal part of the
/// array, of whole pages.
///
/// A rank sees the array in two ways. `own` is the rank's share, which every rank of the node sees. `whole`
/// is a private mapping of all shares: a write there copies the page for this rank (copy-on-write), as if the
/// rank had an array of its own. Between updates every rank may write to `whole`, alike on all ranks. An
/// update takes these writes over, and then changes `own`.
class NodeArena {
 public:
  /// Maps the shares of all ranks; `shares` has `segment_bytes` for each. Null if the kernel does not map
  /// them or does not report which pages a process has copied.
  static std::shared_ptr<NodeArena> map(SharedWindow shares);
  /// Returns the bytes of a segment. `share_bytes`: of a share, a multiple of `page_bytes`.
  static std::size_t segment_bytes(std::size_t share_bytes) { return share_bytes + page_bytes(); }
  static std::size_t page_bytes();

  ~NodeArena();
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  std::byte* whole() const noexcept { return whole_; }
  std::byte* own() const noexcept { return shares_.own(); }

  // The three parts of an update, for `NodeMemory`, which lets the ranks meet between them.

  /// Finds the pages of this rank's share that the rank has copied. Throws CommunicationError if the kernel
  /// does not report them.
  void find_written();
  /// Moves their values into `own`. No rank reads the array meanwhile.
  void take_over_written();
  /// Drops this rank's copies of pages that their owners have taken over. Every rank has changed its share.
  void drop_copies();

 private:
  NodeArena(SharedWindow shares, FileDescriptor pagemap, std::byte* whole);
  bool maps_shares();
  bool reports_copied_pages();
  bool read_pages();
  std::byte* share_in_whole(int rank) const noexcept {
    return whole_ + static_cast<std::size_t>(rank) * share_bytes_;
  }
  /// Whether a rank has taken pages over in this update. Lies behind its share.
  std::uint64_t& took_over(int rank) const noexcept;

  SharedWindow shares_;
  FileDescriptor pagemap_;  ///< /proc/self/pagemap
  std::byte* whole_;
  std::size_t share_bytes_;
  std::vector<std::uint64_t> pages_;                          ///< entries of `pagemap_` for the own share
  std::vector<std::pair<std::size_t, std::size_t>> written_;  ///< bytes [begin, end) of the own share
  bool ended_ = true;                                         ///< the last update; none is in progress
};

}  // namespace cxtrain
