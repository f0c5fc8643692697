#include "cxtrain/comm/host_communicator.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/comm/mpi_types.h"
#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {
namespace {

/// Bytes that MPI is given at a time: large messages gain from pieces, and its counts are 32-bit.
constexpr std::size_t kPiece = std::size_t{4} << 20;
/// The unit in which slices are dealt out: whole cache lines, so that two ranks never write the same one.
constexpr std::size_t kCacheLine = 64;

void require_dense_host_tensor(const at::Tensor& tensor, const char* operation) {
  if (!tensor.is_cpu() || !tensor.is_non_overlapping_and_dense()) {
    throw CommunicationError(std::string(operation) + ": needs a dense tensor in host memory, got one on " +
                             tensor.device().str() + "; move it with .cpu().contiguous()");
  }
}

MpiComm split(MPI_Comm comm, int color, int key) {
  MPI_Comm result = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, color, key, &result), "MPI_Comm_split");
  if (result != MPI_COMM_NULL) MPI_Comm_set_errhandler(result, MPI_ERRORS_RETURN);
  return MpiComm(result);
}

}  // namespace

HostCommunicator::HostCommunicator(MpiWorld& world, double timeout_seconds)
    : HostCommunicator(world, world.node_comm(), timeout_seconds) {}

HostCommunicator::HostCommunicator(MpiWorld& world, MPI_Comm node_comm, double timeout_seconds)
    : watchdog_(world.watchdog()),
      comm_(MpiComm::duplicate(world.comm())),
      node_comm_(MpiComm::duplicate(node_comm)),
      barrier_(node_comm_.get(), timeout_seconds) {
  MPI_Comm_rank(comm_.get(), &rank_);
  MPI_Comm_size(comm_.get(), &size_);
  MPI_Comm_rank(node_comm_.get(), &local_rank_);
  MPI_Comm_size(node_comm_.get(), &local_size_);
  leaders_ = split(comm_.get(), local_rank_ == 0 ? 0 : MPI_UNDEFINED, rank_);
  if (local_rank_ == 0) MPI_Comm_size(leaders_.get(), &num_nodes_);
  check_mpi(MPI_Bcast(&num_nodes_, 1, MPI_INT, 0, node_comm_.get()), "MPI_Bcast");
}

HostCommunicator::~HostCommunicator() = default;

std::string HostCommunicator::description() const {
  return num_nodes_ == 1 ? "MPI, gradients in a window shared by the node's ranks"
                         : "MPI, gradients in one shared window per node, summed over " +
                               std::to_string(num_nodes_) + " nodes";
}

at::Tensor HostCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(device);
  const std::size_t bytes = static_cast<std::size_t>(numel) * c10::elementSize(dtype);
  if (bytes == 0 || !device.is_cpu() || !has_reduce_kernel(dtype)) return at::zeros({numel}, options);
  std::optional<SharedWindow> window = SharedWindow::allocate(node_comm_.get(), bytes);
  // Nodes may differ in shared memory; the way of reducing must not.
  int shared = window ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &shared, 1, MPI_INT, MPI_MIN, comm_.get()), "MPI_Allreduce");
  if (shared == 0) {
    log_warning("/dev/shm has no room for " +
                std::to_string(bytes * static_cast<std::size_t>(local_size_) >> 20) +
                " MB of gradients; they take MPI_Allreduce instead, which is slower (enlarge /dev/shm)");
    return at::zeros({numel}, options);
  }
  windows_.push_back(std::move(*window));
  return at::from_blob(windows_.back().mine(), {numel}, options);
}

void HostCommunicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  require_dense_host_tensor(tensor, "all_reduce");
  if (size_ == 1 || tensor.numel() == 0) return;
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const auto count = static_cast<std::size_t>(tensor.numel());
  for (const SharedWindow& window : windows_) {
    if (!window.contains(data)) continue;
    return reduce_in_window(window, static_cast<std::size_t>(data - window.mine()), tensor.scalar_type(),
                            count, op);
  }
  reduce_by_mpi(comm_.get(), data, tensor.scalar_type(), count, op, op == ReduceOp::avg ? size_ : 1);
}

void HostCommunicator::reduce_in_window(const SharedWindow& window, std::size_t offset, at::ScalarType dtype,
                                        std::size_t count, ReduceOp op) {
  const std::size_t element = c10::elementSize(dtype);
  const std::size_t grain = kCacheLine / element;
  const auto parts = static_cast<std::size_t>(local_size_), mine = static_cast<std::size_t>(local_rank_);
  const std::size_t per_rank = ((count + parts - 1) / parts + grain - 1) / grain * grain;
  const std::size_t begin = std::min(count, mine * per_rank), end = std::min(count, begin + per_rank);
  const bool one_node = num_nodes_ == 1;
  const int divisor = op == ReduceOp::avg ? size_ : 1;

  std::array<std::byte*, 256> few;
  std::vector<std::byte*> many;  // only on nodes with more ranks than anybody has cores today
  std::byte** segments = few.data();
  if (parts > few.size()) {
    many.resize(parts);
    segments = many.data();
  }
  for (std::size_t i = 0; i < parts; ++i) segments[i] = window.segments()[i] + offset + begin * element;

  barrier_.wait("all_reduce");  // every rank's gradients are written
  if (begin < end) {
    const std::size_t targets = one_node ? parts : 1;
    reduce_elements(dtype, op, {segments, parts}, {segments, targets}, end - begin, one_node ? divisor : 1);
  }
  barrier_.wait("all_reduce");  // every slice is summed
  if (one_node) return;

  std::byte* leader = window.segments()[0] + offset;
  if (local_rank_ == 0) reduce_by_mpi(leaders_.get(), leader, dtype, count, op, divisor);
  barrier_.wait("all_reduce");  // the leader has the sum over the nodes
  if (local_rank_ != 0) std::copy_n(leader, count * element, window.mine() + offset);
  barrier_.wait("all_reduce");  // everyone has read it
}

void HostCommunicator::reduce_by_mpi(MPI_Comm comm, std::byte* data, at::ScalarType dtype, std::size_t count,
                                     ReduceOp op, int divisor) {
  const std::size_t element = c10::elementSize(dtype);
  const std::size_t piece = kPiece / element;
  const MpiReduction reduction = mpi_reduction(dtype, op);
  const Watchdog::Wait wait(watchdog_, "all_reduce");
  for (std::size_t begin = 0; begin < count; begin += piece) {
    const std::size_t n = std::min(piece, count - begin);
    std::byte* part = data + begin * element;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, part, static_cast<int>(n), reduction.type, reduction.op, comm),
              "MPI_Allreduce");
    if (divisor == 1) continue;
    const std::array<const std::byte*, 1> src{part};
    const std::array<std::byte*, 1> dst{part};
    reduce_elements(dtype, op, src, dst, n, divisor);
  }
}

void HostCommunicator::broadcast(const at::Tensor& tensor, int root) {
  require_dense_host_tensor(tensor, "broadcast");
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const std::size_t bytes = tensor.nbytes();
  const Watchdog::Wait wait(watchdog_, "broadcast");
  for (std::size_t begin = 0; begin < bytes; begin += kPiece) {
    check_mpi(MPI_Bcast(data + begin, static_cast<int>(std::min(kPiece, bytes - begin)), MPI_BYTE, root,
                        comm_.get()),
              "MPI_Bcast");
  }
}

}  // namespace cxtrain
