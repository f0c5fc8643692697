#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>

#include "cxtrain/comm/shared_window.h"

namespace cxtrain {

/// A barrier among the ranks of a node: one atomic counter in shared memory. A hundred times cheaper than
/// MPI's where the ranks arrive together, and one that ends with an error instead of never.
class NodeBarrier {
 public:
  /// Collective over `node_comm`. `timeout_seconds`: the longest that a rank may be late.
  NodeBarrier(MPI_Comm node_comm, double timeout_seconds);

  /// Returns when every rank of the node has called it as often. Writes made before it are visible after it.
  /// Throws CommunicationError saying how many ranks came.
  void wait(const char* operation);

 private:
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> arrived;
  };

  SharedWindow window_;
  Counter* counter_;
  std::uint64_t ranks_;
  std::uint64_t generation_ = 0;
  int spins_before_yield_;
  double timeout_seconds_;
};

}  // namespace cxtrain
