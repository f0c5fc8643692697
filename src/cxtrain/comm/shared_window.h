#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/memory/shared_memory.h"

namespace cxtrain {

/// Memory that all ranks of a node see: one segment per rank, each in every rank's address space.
class SharedWindow {
 public:
  /// What the segments are made of: anonymous memory, or files in /dev/shm.
  enum class Backing { anonymous, file };

  /// Collective over `node_comm`: `bytes` (above 0) for each rank, zeroed, on pages of their own. Takes
  /// `first_choice` (which is for tests), and files where that fails on some rank. Empty, on all ranks alike,
  /// where the node can do neither.
  static std::optional<SharedWindow> allocate(const MpiComm& node_comm, std::size_t bytes,
                                              Backing first_choice = Backing::anonymous);

  std::size_t bytes() const noexcept { return bytes_; }
  /// Segments in the order of the node's ranks.
  std::span<std::byte* const> segments() const noexcept { return segments_; }
  /// This rank's place among them.
  int rank() const noexcept { return rank_; }
  std::byte* mine() const noexcept { return segments_[static_cast<std::size_t>(rank_)]; }
  bool contains(const void* address) const noexcept { return address >= mine() && address < mine() + bytes_; }
  /// This rank's segment, which may outlive the window.
  const std::shared_ptr<SharedMemory>& memory() const { return memory_[static_cast<std::size_t>(rank_)]; }

 private:
  SharedWindow() = default;
  static std::optional<SharedWindow> made_of(Backing backing, const MpiComm& node_comm, std::size_t bytes);

  std::size_t bytes_ = 0;
  int rank_ = 0;
  std::vector<std::shared_ptr<SharedMemory>> memory_;  ///< one per rank
  std::vector<std::byte*> segments_;                   ///< where each lies
};

}  // namespace cxtrain
