#pragma once

#include <mpi.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace cxtrain {

/// Memory that all ranks of a node see: one segment per rank, each in every rank's address space.
class SharedWindow {
 public:
  /// Collective over `node_comm`: `bytes` for each rank, zeroed, on cache lines of its own. Empty, on all
  /// ranks alike, where the node's shared memory (/dev/shm, often 64 MB in containers) has no room for it:
  /// touching such memory would kill the rank.
  static std::optional<SharedWindow> allocate(MPI_Comm node_comm, std::size_t bytes);

  SharedWindow(SharedWindow&& other) noexcept;
  SharedWindow& operator=(SharedWindow&&) = delete;
  /// Collective.
  ~SharedWindow();

  std::size_t bytes() const noexcept { return bytes_; }
  /// Segments in the order of the node's ranks.
  std::span<std::byte* const> segments() const noexcept { return segments_; }
  std::byte* mine() const noexcept { return mine_; }
  bool contains(const void* address) const noexcept { return address >= mine_ && address < mine_ + bytes_; }

 private:
  SharedWindow(MPI_Win window, std::size_t bytes, std::byte* mine, std::vector<std::byte*> segments);

  MPI_Win window_ = MPI_WIN_NULL;
  std::size_t bytes_ = 0;
  std::byte* mine_ = nullptr;
  std::vector<std::byte*> segments_;
};

}  // namespace cxtrain
