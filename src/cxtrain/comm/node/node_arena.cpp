#include "cxtrain/comm/node/node_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cxtrain/base/error.h"

namespace cxtrain {

std::size_t NodeArena::page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::shared_ptr<NodeArena> NodeArena::map(SharedWindow shares) {
  FileDescriptor pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const std::size_t bytes = (shares.bytes() - page_bytes()) * shares.segments().size();
  void* const whole = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  // A process without memory for this much is at its end.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  const std::shared_ptr<NodeArena> arena(
      new NodeArena(std::move(shares), std::move(pagemap), static_cast<std::byte*>(whole)));
  const bool mapped = arena->maps_shares();
  arena->shares_.close_files();
  return mapped && arena->reports_copied_pages() ? arena : nullptr;
}

NodeArena::NodeArena(SharedWindow shares, FileDescriptor pagemap, std::byte* whole)
    : shares_(std::move(shares)),
      pagemap_(std::move(pagemap)),
      whole_(whole),
      share_bytes_(shares_.bytes() - page_bytes()),
      pages_(share_bytes_ / page_bytes()) {}

NodeArena::~NodeArena() { munmap(whole_, share_bytes_ * shares_.segments().size()); }

bool NodeArena::maps_shares() {
  for (int rank = 0; rank < static_cast<int>(shares_.segments().size()); ++rank) {
    if (!shares_.map_private(rank, share_in_whole(rank), share_bytes_)) return false;
  }
  return true;
}

/// Writes to the first page of the own share, looks for the page, and drops the copy.
bool NodeArena::reports_copied_pages() {
  std::byte* const first = share_in_whole(shares_.rank());
  const volatile std::byte* const before = first + page_bytes() - 1;
  static_cast<void>(*before);  // a page that has been read is not a copy
  if (!pagemap_ || !read_pages() || !written_.empty()) return false;
  *static_cast<volatile std::byte*>(first) = std::byte{1};
  const bool found = read_pages() && written_.size() == 1 && written_[0].second == page_bytes();
  return madvise(first, page_bytes(), MADV_DONTNEED) == 0 && found && read_pages() && written_.empty();
}

/// An entry says whether a page is present, and whether it is a page of a file or of shared memory
/// (Documentation/admin-guide/mm/pagemap.rst). A page of a private mapping that is neither is a copy, which
/// may have been swapped out.
bool NodeArena::read_pages() {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62,
                          kOfFile = std::uint64_t{1} << 61;
  const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(share_in_whole(shares_.rank())) /
                                     page_bytes() * sizeof(std::uint64_t));
  auto* const to = reinterpret_cast<std::byte*>(pages_.data());
  const std::size_t bytes = pages_.size() * sizeof(std::uint64_t);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = pread(pagemap_.get(), to + done, bytes - done, at + static_cast<off_t>(done));
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  written_.clear();
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    const std::uint64_t entry = pages_[page];
    if ((entry & (kPresent | kSwapped)) == 0 || (entry & kOfFile) != 0) continue;
    const std::size_t begin = page * page_bytes(), end = begin + page_bytes();
    if (!written_.empty() && written_.back().second == begin) {
      written_.back().second = end;
    } else {
      written_.emplace_back(begin, end);
    }
  }
  return true;
}

std::uint64_t& NodeArena::took_over(int rank) const noexcept {
  return *reinterpret_cast<std::uint64_t*>(shares_.segments()[static_cast<std::size_t>(rank)] + share_bytes_);
}

void NodeArena::find_written() {
  if (read_pages()) return;
  throw CommunicationError("/proc/self/pagemap does not report the pages of the parameters any more",
                           MessageCode::communication_failed);
}

void NodeArena::take_over_written() {
  std::byte* const here = share_in_whole(shares_.rank());
  for (const auto& [begin, end] : written_) {
    std::memcpy(own() + begin, here + begin, end - begin);
    madvise(here + begin, end - begin, MADV_DONTNEED);
  }
  std::uint64_t& own_word = took_over(shares_.rank());
  if (std::exchange(ended_, false)) own_word = 0;  // every rank has read the word of the last update
  if (!written_.empty()) own_word = 1;
}

void NodeArena::drop_copies() {
  ended_ = true;
  for (int rank = 0; rank < static_cast<int>(shares_.segments().size()); ++rank) {
    if (rank == shares_.rank() || took_over(rank) == 0) continue;
    madvise(share_in_whole(rank), share_bytes_, MADV_DONTNEED);
  }
}

}  // namespace cxtrain
