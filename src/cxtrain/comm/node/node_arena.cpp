#include "cxtrain/comm/node/node_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/huge_pages.h"

namespace cxtrain {
namespace {

/// Bytes of a rank's words in `took_over`: no two ranks write to one cache line.
std::size_t bytes_of_words(std::size_t rows) { return round_up(rows * sizeof(std::uint64_t), kCacheLine); }

}  // namespace

std::size_t NodeArena::bytes_for(std::span<const std::size_t> share_bytes, int ranks) {
  std::size_t of_rank = bytes_of_words(share_bytes.size());
  for (const std::size_t share : share_bytes) of_rank += share;
  return of_rank * static_cast<std::size_t>(ranks);
}

std::shared_ptr<NodeArena> NodeArena::map(std::shared_ptr<SharedMemory> memory,
                                          std::span<const std::size_t> share_bytes, int rank, int ranks) {
  std::vector<Row> rows;
  std::size_t begin = 0;
  for (const std::size_t share : share_bytes) {
    rows.push_back({begin, share});
    begin += share * static_cast<std::size_t>(ranks);
  }
  std::byte* const whole = reserve_addresses(begin);
  if (whole == nullptr) return nullptr;
  FileDescriptor pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  // A process without memory for this much is at its end.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  const std::shared_ptr<NodeArena> arena(
      new NodeArena(std::move(memory), std::move(rows), std::move(pagemap), whole, rank, ranks));
  // Mapped once more: where a page was copied, the kernel maps no huge page.
  const bool mapped = arena->map_whole() && arena->reports_copied_pages() && arena->map_whole();
  arena->memory_->close_file();
  return mapped ? arena : nullptr;
}

NodeArena::NodeArena(std::shared_ptr<SharedMemory> memory, std::vector<Row> rows, FileDescriptor pagemap,
                     std::byte* whole, int rank, int ranks)
    : memory_(std::move(memory)),
      rows_(std::move(rows)),
      pagemap_(std::move(pagemap)),
      whole_(whole),
      rank_(rank),
      ranks_(ranks) {
  const Row& largest = *std::ranges::max_element(rows_, {}, &Row::share);
  pages_.resize(largest.share / page_bytes());
}

NodeArena::~NodeArena() { munmap(whole_, bytes_of_rows()); }

/// Writes to the first page of the first own share, looks for the page, and drops the copy.
bool NodeArena::reports_copied_pages() {
  Row& row = rows_.front();
  std::byte* const first = whole_ + share_begin(row, rank_);
  const volatile std::byte* const before = first + page_bytes() - 1;
  static_cast<void>(*before);  // a page that has been read is not a copy
  if (!pagemap_ || !find_written(row) || !row.written.empty()) return false;
  *static_cast<volatile std::byte*>(first) = std::byte{1};
  const bool found = find_written(row) && row.written.size() == 1 &&
                     row.written[0].second - row.written[0].first == page_bytes();
  return madvise(first, page_bytes(), MADV_DONTNEED) == 0 && found && find_written(row) &&
         row.written.empty();
}

void NodeArena::use_huge_pages() noexcept {
  const std::size_t pages = bytes_of_rows() / kHugePage;
  const auto first_of = [&](int rank) {
    return pages * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks_) * kHugePage;
  };
  cxtrain::use_huge_pages(memory_->data() + first_of(rank_), first_of(rank_ + 1) - first_of(rank_));
}

/// An entry says whether a page is present, and whether it is a page of a file or of shared memory
/// (Documentation/admin-guide/mm/pagemap.rst). A page of a private mapping that is neither is a copy, which
/// may have been swapped out.
bool NodeArena::find_written(Row& row) {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62,
                          kOfFile = std::uint64_t{1} << 61;
  const std::size_t first = share_begin(row, rank_);
  const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(whole_ + first) / page_bytes() *
                                     sizeof(std::uint64_t));
  auto* const to = reinterpret_cast<std::byte*>(pages_.data());
  const std::size_t pages = row.share / page_bytes(), bytes = pages * sizeof(std::uint64_t);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = pread(pagemap_.get(), to + done, bytes - done, at + static_cast<off_t>(done));
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  row.written.clear();
  for (std::size_t page = 0; page < pages; ++page) {
    const std::uint64_t entry = pages_[page];
    if ((entry & (kPresent | kSwapped)) == 0 || (entry & kOfFile) != 0) continue;
    const std::size_t begin = first + page * page_bytes(), end = begin + page_bytes();
    if (!row.written.empty() && row.written.back().second == begin) {
      row.written.back().second = end;
    } else {
      row.written.emplace_back(begin, end);
    }
  }
  return true;
}

std::uint64_t& NodeArena::took_over(int rank, std::size_t row) const noexcept {
  std::byte* const words =
      memory_->data() + bytes_of_rows() + static_cast<std::size_t>(rank) * bytes_of_words(rows_.size());
  return reinterpret_cast<std::uint64_t*>(words)[row];
}

void NodeArena::find_written() {
  for (Row& row : rows_) {
    if (find_written(row)) continue;
    throw CommunicationError("/proc/self/pagemap does not report the pages of the parameters any more",
                             MessageCode::communication_failed);
  }
}

void NodeArena::take_over_written() {
  const bool first = std::exchange(ended_, false);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    for (const auto& [begin, end] : rows_[row].written) {
      std::memcpy(memory_->data() + begin, whole_ + begin, end - begin);
      madvise(whole_ + begin, end - begin, MADV_DONTNEED);
    }
    if (first) took_over(rank_, row) = 0;  // every rank has read the word of the last update
    if (!rows_[row].written.empty()) took_over(rank_, row) = 1;
  }
}

void NodeArena::drop_copies() {
  ended_ = true;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_ || took_over(rank, row) == 0) continue;
      madvise(whole_ + share_begin(rows_[row], rank), rows_[row].share, MADV_DONTNEED);
    }
  }
}

}  // namespace cxtrain
