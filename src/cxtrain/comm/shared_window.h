#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/memory/shared_memory.h"

namespace cxtrain {

/// Memory that all ranks of a node see: one segment per rank, each in every rank's address space.
///
/// A segment is anonymous memory of its rank, which the others map (`SharedMemory`). Where they cannot, it is
/// a part of an MPI window, which Open MPI puts into /dev/shm.
class SharedWindow {
 public:
  enum class Backing { anonymous, mpi };

  /// Collective over `node_comm`: `bytes` for each rank, zeroed, on cache lines of its own. Empty, on all
  /// ranks alike, where the node has neither way, or /dev/shm (often 64 MB in containers) no room for the
  /// second: touching such memory would kill the rank. `first_choice` is for tests.
  static std::optional<SharedWindow> allocate(const MpiComm& node_comm, std::size_t bytes,
                                              Backing first_choice = Backing::anonymous);
  /// The same in anonymous memory or not at all, for what outlives the window: `memory()` is not null.
  static std::optional<SharedWindow> from_anonymous_memory(const MpiComm& node_comm, std::size_t bytes);

  SharedWindow(SharedWindow&& other) noexcept;
  SharedWindow& operator=(SharedWindow&&) = delete;
  /// Collective for an MPI window.
  ~SharedWindow();

  std::size_t bytes() const noexcept { return bytes_; }
  /// Segments in the order of the node's ranks.
  std::span<std::byte* const> segments() const noexcept { return segments_; }
  /// This rank's place among them.
  int rank() const noexcept { return rank_; }
  std::byte* mine() const noexcept { return segments_[static_cast<std::size_t>(rank_)]; }
  bool contains(const void* address) const noexcept { return address >= mine() && address < mine() + bytes_; }
  /// This rank's segment, which may then outlive the window; null in an MPI window.
  std::shared_ptr<SharedMemory> memory() const {
    return memory_.empty() ? nullptr : memory_[static_cast<std::size_t>(rank_)];
  }

 private:
  SharedWindow(std::size_t bytes, std::vector<std::byte*> segments, int rank);
  static std::optional<SharedWindow> from_mpi(const MpiComm& node_comm, std::size_t bytes);

  std::size_t bytes_;
  std::vector<std::byte*> segments_;
  int rank_;
  std::vector<std::shared_ptr<SharedMemory>> memory_;  ///< one per segment; none in an MPI window
  MPI_Win window_ = MPI_WIN_NULL;
  Watchdog* watchdog_ = nullptr;                       ///< for the end of an MPI window
  int exceptions_ = std::uncaught_exceptions();        ///< under way when it was made
};

}  // namespace cxtrain
