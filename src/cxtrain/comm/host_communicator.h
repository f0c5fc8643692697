#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node_barrier.h"
#include "cxtrain/comm/shared_window.h"

namespace cxtrain {

/// Collectives on host memory, over MPI.
///
/// Memory from `allocate` and `mem_pool` lies in windows that the ranks of a node share, and is reduced in
/// place: each rank sums its blocks of all ranks' copies and writes the result into all of them, so that
/// nothing is packed, sent or unpacked (2 to 8 times faster than MPI_Allreduce, benchmarks/RESULTS.md). Over
/// several nodes each node's sum goes through its first rank, in pieces of 4 MiB. Any other memory takes
/// MPI_Allreduce, in pieces.
class HostCommunicator final : public Communicator {
 public:
  /// Collective. The world outlives it; its watchdog bounds every wait.
  explicit HostCommunicator(MpiWorld& world);
  /// The same with other ranks than the node's sharing memory.
  HostCommunicator(MpiWorld& world, const MpiComm& node_comm);
  ~HostCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override;
  bool overlaps() const override { return false; }

  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override;
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void all_reduce_parts(const at::Tensor& memory, std::span<const Part> parts, ReduceOp op) override;
  std::shared_ptr<MemPool> mem_pool(std::span<const std::size_t> sizes) override;
  std::unique_ptr<NodeReplicas> node_replicas(std::size_t bytes) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  void join() override {}

 private:
  /// Where in the windows an address of this rank lies.
  struct Place {
    std::uint32_t window;
    std::uint64_t offset;  ///< bytes
  };
  std::optional<Place> find(const void* address) const;
  std::byte* at(int local_rank, Place place) const {
    return windows_[place.window].segments()[static_cast<std::size_t>(local_rank)] + place.offset;
  }

  void reduce_gathered(const at::Tensor& memory, std::span<const Part> parts, ReduceOp op);
  void reduce_by_node(Place memory, at::ScalarType dtype, std::size_t count, std::span<const Part> parts,
                      ReduceOp op);
  void sum_block(const Place& memory, at::ScalarType dtype, std::size_t begin, std::size_t end,
                 std::span<const Part> parts, ReduceOp op, int divisor);
  void reduce_by_mpi(const MpiComm& comm, std::byte* data, at::ScalarType dtype, std::size_t count,
                     ReduceOp op, int divisor);

  MpiComm comm_, node_comm_;
  MpiComm leaders_;  ///< the first rank of each node; none on the others
  int rank_, size_, local_rank_, local_size_, num_nodes_ = 1;
  NodeBarrier barrier_;
  std::deque<SharedWindow> windows_;
  /// For `mem_pool`'s parts: where each lies, written by every rank before it comes to the barrier.
  std::optional<SharedWindow> places_;
  std::uint32_t pool_window_ = 0;   ///< where there are places
  std::vector<std::byte*> copies_;  ///< of the elements at hand, one per rank of the node
};

}  // namespace cxtrain
