#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node/window_collectives.h"

namespace cxtrain {

/// Collectives on host memory.
///
/// Memory from `allocate`, and from the pool of `node_memory`, lies in windows that the ranks of a node
/// share, and is reduced and gathered there (`WindowCollectives`). Its sums over several nodes travel by TCP,
/// beside the caller's work, or by MPI; so does what is gathered, if all nodes have equally many ranks. Any
/// other memory goes by MPI.
class HostCommunicator final : public Communicator {
 public:
  /// Collective. The world outlives it; its watchdog bounds every wait.
  explicit HostCommunicator(MpiWorld& world, NetworkWay way = NetworkWay::automatic);
  /// The same with other ranks than the node's sharing memory.
  HostCommunicator(MpiWorld& world, const MpiComm& node_comm, NetworkWay way = NetworkWay::automatic);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override;
  bool overlaps() const override { return windows_.overlaps(); }
  std::int64_t message_bytes() const override;
  std::optional<double> seconds_between_nodes(std::int64_t bytes) const override {
    return windows_.seconds_between_nodes(bytes);
  }
  std::vector<ConnectionUse> connections() const override { return windows_.connections(); }

  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override;
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override;
  void all_gather(const at::Tensor& output, const at::Tensor& input) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  void send(const at::Tensor& tensor, int to) override;
  void recv(const at::Tensor& tensor, int from) override;
  void join() override { windows_.join(); }
  std::unique_ptr<Communicator> split(int color, int key) override;
  NodeMemory* node_memory() override { return &windows_; }

 private:
  /// `node`: a number that the ranks of a node have in common.
  HostCommunicator(MpiComm comm, int node, NetworkWay way);

  MpiComm comm_;
  const NetworkWay way_;
  int rank_, size_;
  WindowCollectives windows_;
  std::vector<std::byte> scratch_;  ///< for mpi_reduce_scatter
};

}  // namespace cxtrain
