#include "cxtrain/comm/host_communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/mpi_collectives.h"
#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {
namespace {

void require_dense_host_tensor(const at::Tensor& tensor, const char* operation) {
  if (!tensor.is_cpu() || !tensor.is_non_overlapping_and_dense()) {
    throw CommunicationError(std::string(operation) + ": needs a dense tensor in host memory, got one on " +
                                 tensor.device().str() + "; move it with .cpu().contiguous()",
                             MessageCode::bad_tensor);
  }
}

/// The lowest rank of a node, by which ranks of `comm` know their node.
int lowest_rank(const MpiComm& comm, const MpiComm& node_comm) {
  int lowest = comm.rank();
  node_comm.call("the number of a node", [&](MPI_Comm node) {
    return MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, node);
  });
  return lowest;
}

std::byte* data_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

}  // namespace

HostCommunicator::HostCommunicator(MpiWorld& world, NetworkWay way)
    : HostCommunicator(world, world.node_comm(), way) {}

HostCommunicator::HostCommunicator(MpiWorld& world, const MpiComm& node_comm, NetworkWay way)
    : HostCommunicator(world.comm().duplicate(), lowest_rank(world.comm(), node_comm), way) {}

HostCommunicator::HostCommunicator(MpiComm comm, int node, NetworkWay way)
    : comm_(std::move(comm)),
      way_(way),
      rank_(comm_.rank()),
      size_(comm_.size()),
      windows_(comm_, node, way) {}

std::string HostCommunicator::description() const {
  return windows_.num_nodes() == 1
             ? "MPI, summed in memory that the node's ranks share"
             : "MPI, summed in memory that each node's ranks share, then over " +
                   std::to_string(windows_.num_nodes()) + " nodes by " + windows_.way_between_nodes();
}

std::int64_t HostCommunicator::message_bytes() const {
  return windows_.message_bytes().value_or(Communicator::message_bytes());
}

std::unique_ptr<Communicator> HostCommunicator::split(int color, int key) {
  MpiComm part = comm_.split(color < 0 ? MPI_UNDEFINED : color, key);
  if (color < 0) return nullptr;
  return std::unique_ptr<Communicator>(new HostCommunicator(std::move(part), windows_.node(), way_));
}

at::Tensor HostCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(device);
  const std::size_t bytes = static_cast<std::size_t>(numel) * c10::elementSize(dtype);
  if (bytes == 0 || !device.is_cpu() || !has_reduce_kernel(dtype)) return at::empty({numel}, options);
  const std::shared_ptr<std::byte> memory = windows_.allocate(bytes);
  if (memory == nullptr) {
    log_warning("the ranks of this node cannot map each other's memory, and /dev/shm has no room for " +
                std::to_string(bytes * static_cast<std::size_t>(windows_.local_size()) >> 20) +
                " MB of gradients; they take MPI_Allreduce instead, which is slower (enlarge /dev/shm)");
    return at::empty({numel}, options);
  }
  return at::from_blob(
      memory.get(), {numel}, [memory](void*) {}, options);
}

void HostCommunicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  require_dense_host_tensor(tensor, "all_reduce");
  if (size_ == 1 || tensor.numel() == 0) return;
  std::byte* const data = data_of(tensor);
  const auto count = static_cast<std::size_t>(tensor.numel());
  if (const auto location = windows_.find(data)) {
    return windows_.all_reduce(*location, tensor.scalar_type(), count, op);
  }
  mpi_all_reduce(comm_, data, tensor.scalar_type(), count, op, op == ReduceOp::avg ? size_ : 1);
}

void HostCommunicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  require_dense_host_tensor(input, "reduce_scatter");
  check_reduce_scatter(*this, output, input);
  if (output.numel() == 0) return;
  std::byte* const to = data_of(output);
  const auto* const from = static_cast<const std::byte*>(input.const_data_ptr());
  if (size_ == 1) {
    if (to != from) std::copy_n(from, input.nbytes(), to);
    return;
  }
  const auto count = static_cast<std::size_t>(output.numel());
  const auto location = windows_.find(from);
  if (location && windows_.num_nodes() == 1)
    return windows_.reduce_scatter(to, *location, input.scalar_type(), count, op);
  if (location) {  // a sum over nodes goes into all shards, and the input keeps its values
    const at::Tensor sums = allocate(input.numel(), input.scalar_type(), input.device());
    std::copy_n(from, input.nbytes(), data_of(sums));
    all_reduce(sums, op);
    std::copy_n(data_of(sums) + static_cast<std::size_t>(rank_) * output.nbytes(), output.nbytes(), to);
    return;
  }
  mpi_reduce_scatter(comm_, to, from, input.scalar_type(), count, op, op == ReduceOp::avg ? size_ : 1,
                     scratch_);
}

void HostCommunicator::all_gather(const at::Tensor& output, const at::Tensor& input) {
  require_dense_host_tensor(output, "all_gather");
  check_all_gather(*this, output, input);
  const std::size_t bytes = input.nbytes();
  if (bytes == 0) return;
  std::byte* const data = data_of(output);
  const auto* const from = static_cast<const std::byte*>(input.const_data_ptr());
  std::byte* const own = data + static_cast<std::size_t>(rank_) * bytes;
  if (own != from) std::copy_n(from, bytes, own);
  if (size_ == 1) return;
  const auto location = windows_.gathers() ? windows_.find(data) : std::nullopt;
  if (location) return windows_.all_gather(*location, bytes);
  mpi_all_gather(comm_, data, bytes);
}

void HostCommunicator::broadcast(const at::Tensor& tensor, int root) {
  require_dense_host_tensor(tensor, "broadcast");
  check_root(*this, root);
  mpi_broadcast(comm_, data_of(tensor), tensor.nbytes(), root);
}

void HostCommunicator::send(const at::Tensor& tensor, int to) {
  require_dense_host_tensor(tensor, "send");
  check_peer("send", *this, to);
  mpi_send(comm_, static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes(), to);
}

void HostCommunicator::recv(const at::Tensor& tensor, int from) {
  require_dense_host_tensor(tensor, "recv");
  check_peer("recv", *this, from);
  mpi_recv(comm_, data_of(tensor), tensor.nbytes(), from);
}

}  // namespace cxtrain
