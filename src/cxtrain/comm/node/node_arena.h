#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/comm/node/shared_memory.h"

namespace cxtrain {

/// Rows of memory with one copy for all ranks of a node. Each rank owns a share of each row. The shares of a
/// row have equal sizes, and each is a number of whole pages.
///
/// A rank sees a row in two ways. `own` is the rank's share, which every rank of the node sees. `whole` is a
/// private mapping of all shares: a write there copies the page for this rank (copy-on-write), as if the rank
/// had a row of its own. Between updates every rank may write to `whole`, alike on all ranks. An update takes
/// these writes over, and then changes `own`.
class NodeArena {
 public:
  /// Returns the bytes of memory that `map` wants. `share_bytes`: for each row the bytes of a share, a
  /// multiple of `page_bytes`.
  static std::size_t bytes_for(std::span<const std::size_t> share_bytes, int ranks);
  /// Maps the rows. `memory` is the node's, and its file is open. This process is rank `rank` of `ranks`.
  /// Null if the kernel does not map them or does not report which pages a process has copied.
  static std::shared_ptr<NodeArena> map(std::shared_ptr<SharedMemory> memory,
                                        std::span<const std::size_t> share_bytes, int rank, int ranks);

  ~NodeArena();
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  std::byte* whole(std::size_t row) const noexcept { return whole_ + rows_[row].begin; }
  std::byte* own(std::size_t row) const noexcept { return memory_->data() + share_begin(rows_[row], rank_); }

  /// Puts huge pages behind the rows: this rank does a part of the work. Every rank has filled its shares, so
  /// that the kernel finds near which processor most of a page lies.
  void use_huge_pages() noexcept;

  // The three parts of an update, for `NodeMemory`, which lets the ranks meet between them.

  /// Finds the pages of this rank's shares that the rank has copied. Throws CommunicationError if the kernel
  /// does not report them.
  void find_written();
  /// Moves their values into `own`. No rank reads the rows meanwhile.
  void take_over_written();
  /// Drops this rank's copies of pages that their owners have taken over. Every rank has changed its shares.
  void drop_copies();

 private:
  struct Row {
    std::size_t begin, share;                                       ///< bytes
    std::vector<std::pair<std::size_t, std::size_t>> written = {};  ///< bytes [begin, end) of all rows
  };

  NodeArena(std::shared_ptr<SharedMemory> memory, std::vector<Row> rows, FileDescriptor pagemap,
            std::byte* whole, int rank, int ranks);
  static std::size_t share_begin(const Row& row, int rank) {
    return row.begin + static_cast<std::size_t>(rank) * row.share;
  }
  bool map_whole() noexcept { return memory_->map_private(whole_, bytes_of_rows()); }
  std::size_t bytes_of_rows() const noexcept { return share_begin(rows_.back(), ranks_); }
  bool reports_copied_pages();
  bool find_written(Row& row);
  /// Whether a rank has taken pages of a row over in this update. Lies behind the rows.
  std::uint64_t& took_over(int rank, std::size_t row) const noexcept;

  std::shared_ptr<SharedMemory> memory_;
  std::vector<Row> rows_;
  FileDescriptor pagemap_;  ///< /proc/self/pagemap
  std::byte* whole_;
  const int rank_, ranks_;
  std::vector<std::uint64_t> pages_;  ///< entries of `pagemap_` for a share
  bool ended_ = true;                 ///< the last update; none is in progress
};

}  // namespace cxtrain
