#pragma once

#include <mpi.h>

#include <deque>
#include <memory>
#include <string>

#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node_barrier.h"
#include "cxtrain/comm/shared_window.h"

namespace cxtrain {

/// Collectives on host memory, over MPI.
///
/// Memory from `allocate` lies in a window that the ranks of a node share, and is reduced in place: each rank
/// sums its slice of all ranks' copies and writes the result into all of them, so that nothing is packed,
/// sent or unpacked (2 to 5 times faster than MPI_Allreduce, benchmarks/RESULTS.md). Over several nodes each
/// node's sum goes through its first rank, in pieces of 4 MiB. Any other memory takes MPI_Allreduce, in
/// pieces.
class HostCommunicator final : public Communicator {
 public:
  /// Collective. The world outlives it; `timeout_seconds` bounds the waits in shared memory, the world's own
  /// watchdog MPI's calls.
  HostCommunicator(MpiWorld& world, double timeout_seconds);
  /// The same with other ranks than the node's sharing memory.
  HostCommunicator(MpiWorld& world, MPI_Comm node_comm, double timeout_seconds);
  ~HostCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override;
  bool overlaps() const override { return false; }

  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override;
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  void join() override {}

 private:
  void reduce_in_window(const SharedWindow& window, std::size_t offset, at::ScalarType dtype,
                        std::size_t count, ReduceOp op);
  void reduce_by_mpi(MPI_Comm comm, std::byte* data, at::ScalarType dtype, std::size_t count, ReduceOp op,
                     int divisor);

  Watchdog& watchdog_;
  MpiComm comm_, node_comm_;
  MpiComm leaders_;  ///< the first rank of each node; null on the others
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1, num_nodes_ = 1;
  NodeBarrier barrier_;
  std::deque<SharedWindow> windows_;
};

}  // namespace cxtrain
