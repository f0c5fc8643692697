#include "cxtrain/comm/host_communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/comm/mpi_types.h"
#include "cxtrain/comm/reduce_kernels.h"
#include "cxtrain/comm/window_replicas.h"
#include "cxtrain/memory/cpu_allocator.h"

namespace cxtrain {
namespace {

/// Bytes that MPI is given at a time: large messages gain from pieces, and its counts are 32-bit.
constexpr std::size_t kPiece = std::size_t{4} << 20;
/// Large enough to stream, small enough that all ranks work in the same neighbourhood.
constexpr std::size_t kBlock = std::size_t{512} << 10;

void require_dense_host_tensor(const at::Tensor& tensor, const char* operation) {
  if (!tensor.is_cpu() || !tensor.is_non_overlapping_and_dense()) {
    throw CommunicationError(std::string(operation) + ": needs a dense tensor in host memory, got one on " +
                             tensor.device().str() + "; move it with .cpu().contiguous()");
  }
}

}  // namespace

HostCommunicator::HostCommunicator(MpiWorld& world) : HostCommunicator(world, world.node_comm()) {}

HostCommunicator::HostCommunicator(MpiWorld& world, const MpiComm& node_comm)
    : comm_(world.comm().duplicate()),
      node_comm_(node_comm.duplicate()),
      rank_(comm_.rank()),
      size_(comm_.size()),
      local_rank_(node_comm_.rank()),
      local_size_(node_comm_.size()),
      barrier_(node_comm_) {
  copies_.resize(static_cast<std::size_t>(local_size_));
  leaders_ = comm_.split(local_rank_ == 0 ? 0 : MPI_UNDEFINED, rank_);
  if (local_rank_ == 0) num_nodes_ = leaders_.size();
  node_comm_.call("the number of nodes",
                  [&](MPI_Comm node) { return MPI_Bcast(&num_nodes_, 1, MPI_INT, 0, node); });
}

HostCommunicator::~HostCommunicator() = default;

std::string HostCommunicator::description() const {
  return num_nodes_ == 1 ? "MPI, summed in memory that the node's ranks share"
                         : "MPI, summed in memory that each node's ranks share, then over " +
                               std::to_string(num_nodes_) + " nodes";
}

at::Tensor HostCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(device);
  const std::size_t bytes = static_cast<std::size_t>(numel) * c10::elementSize(dtype);
  if (bytes == 0 || !device.is_cpu() || !has_reduce_kernel(dtype)) return at::empty({numel}, options);
  std::optional<SharedWindow> window = SharedWindow::allocate(node_comm_, bytes);
  // Nodes may differ in shared memory; the way of reducing must not.
  if (!comm_.on_all_ranks("shared memory for gradients", window.has_value())) {
    log_warning("the ranks of this node cannot map each other's memory, and /dev/shm has no room for " +
                std::to_string(bytes * static_cast<std::size_t>(local_size_) >> 20) +
                " MB of gradients; they take MPI_Allreduce instead, which is slower (enlarge /dev/shm)");
    return at::empty({numel}, options);
  }
  windows_.push_back(std::move(*window));
  return at::from_blob(windows_.back().mine(), {numel}, options);
}

std::shared_ptr<MemPool> HostCommunicator::mem_pool(std::span<const std::size_t> sizes) {
  const std::size_t bytes = MemPool::bytes_for(sizes);
  const bool possible = bytes > 0 && local_size_ > 1 && mem_pools_in_effect();
  if (!node_comm_.on_all_ranks("mem_pool", possible)) return nullptr;
  std::optional<SharedWindow> window = SharedWindow::from_anonymous_memory(node_comm_, bytes);
  if (!window) return nullptr;
  std::optional<SharedWindow> places = SharedWindow::allocate(node_comm_, sizes.size() * sizeof(Place));
  if (!places) return nullptr;
  places_.emplace(std::move(*places));
  pool_window_ = static_cast<std::uint32_t>(windows_.size());
  windows_.push_back(std::move(*window));
  return std::make_shared<MemPool>(windows_.back().memory(), sizes);
}

std::unique_ptr<NodeReplicas> HostCommunicator::node_replicas(std::size_t bytes) {
  if (bytes == 0 || local_size_ == 1) return nullptr;
  std::optional<SharedWindow> window = SharedWindow::from_anonymous_memory(node_comm_, bytes);
  if (!window) return nullptr;
  return std::make_unique<WindowReplicas>(std::move(*window), barrier_);
}

std::optional<HostCommunicator::Place> HostCommunicator::find(const void* address) const {
  for (std::uint32_t i = 0; i < windows_.size(); ++i) {
    if (!windows_[i].contains(address)) continue;
    return Place{i, static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - windows_[i].mine())};
  }
  return std::nullopt;
}

void HostCommunicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  require_dense_host_tensor(tensor, "all_reduce");
  if (size_ == 1 || tensor.numel() == 0) return;
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const auto count = static_cast<std::size_t>(tensor.numel());
  // A tensor in the pool lies elsewhere on each rank.
  if (const std::optional<Place> place = find(data); place && (!places_ || place->window != pool_window_)) {
    return reduce_by_node(*place, tensor.scalar_type(), count, {}, op);
  }
  reduce_by_mpi(comm_, data, tensor.scalar_type(), count, op, op == ReduceOp::avg ? size_ : 1);
}

void HostCommunicator::all_reduce_parts(const at::Tensor& memory, std::span<const Part> parts, ReduceOp op) {
  if (!places_ || parts.empty()) return all_reduce(memory, op);
  if (parts.size() * sizeof(Place) > places_->bytes()) {
    throw CommunicationError("all_reduce_parts: " + std::to_string(parts.size()) +
                             " parts, more than mem_pool was told of");
  }
  const std::optional<Place> whole = find(memory.const_data_ptr());
  if (!whole) return reduce_gathered(memory, parts, op);
  auto* mine = reinterpret_cast<Place*>(places_->mine());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].values.numel() == 0) continue;
    const std::optional<Place> place = find(parts[i].values.const_data_ptr());
    if (!place) throw CommunicationError("all_reduce_parts: a part lies outside the communicator's memory");
    mine[i] = *place;
  }
  reduce_by_node(*whole, memory.scalar_type(), static_cast<std::size_t>(memory.numel()), parts, op);
}

/// Where `memory` is not shared, for want of room: the parts are copied into it and back.
void HostCommunicator::reduce_gathered(const at::Tensor& memory, std::span<const Part> parts, ReduceOp op) {
  const auto place = [&](const Part& part) {
    return static_cast<std::byte*>(memory.mutable_data_ptr()) +
           static_cast<std::size_t>(part.offset) * memory.element_size();
  };
  for (const Part& part : parts) {
    const auto* values = static_cast<const std::byte*>(part.values.const_data_ptr());
    if (values != place(part)) std::copy_n(values, part.values.nbytes(), place(part));
  }
  all_reduce(memory, op);
  for (const Part& part : parts) {
    auto* values = static_cast<std::byte*>(part.values.mutable_data_ptr());
    if (values != place(part)) std::copy_n(place(part), part.values.nbytes(), values);
  }
}

void HostCommunicator::reduce_by_node(Place memory, at::ScalarType dtype, std::size_t count,
                                      std::span<const Part> parts, ReduceOp op) {
  const std::size_t element = c10::elementSize(dtype);
  const auto ranks = static_cast<std::size_t>(local_size_), mine = static_cast<std::size_t>(local_rank_);
  const std::size_t rounds = divide_up(count * element, ranks * kBlock), grain = kCacheLine / element;
  const std::size_t block = round_up(divide_up(count, ranks * rounds), grain);
  const int divisor = op == ReduceOp::avg ? size_ : 1;

  barrier_.wait("all_reduce");  // every rank's values are written
  // Backwards, and side by side: what was written last may still be in a cache that the ranks share.
  for (std::size_t round = rounds; round-- > 0;) {
    const std::size_t begin = std::min(count, (round * ranks + mine) * block),
                      end = std::min(count, begin + block);
    if (begin < end) sum_block(memory, dtype, begin, end, parts, op, num_nodes_ == 1 ? divisor : 1);
  }
  barrier_.wait("all_reduce");  // every block is summed
  if (num_nodes_ == 1) return;

  std::byte* leader = at(0, memory);
  if (local_rank_ == 0) reduce_by_mpi(leaders_, leader, dtype, count, op, divisor);
  barrier_.wait("all_reduce");  // the leader has the sum over the nodes
  if (parts.empty() && local_rank_ != 0) std::copy_n(leader, count * element, at(local_rank_, memory));
  for (const Part& part : parts) {
    const std::byte* sum = leader + static_cast<std::size_t>(part.offset) * element;
    if (part.values.const_data_ptr() == sum) continue;
    std::copy_n(sum, part.values.nbytes(), static_cast<std::byte*>(part.values.mutable_data_ptr()));
  }
  barrier_.wait("all_reduce");  // everyone has read it
}

/// Elements [begin, end) of all ranks' copies; the result goes into all of them, or for several nodes to the
/// leader.
void HostCommunicator::sum_block(const Place& memory, at::ScalarType dtype, std::size_t begin,
                                 std::size_t end, std::span<const Part> parts, ReduceOp op, int divisor) {
  const std::size_t element = c10::elementSize(dtype);
  const auto sum_copies = [&](std::size_t first, std::size_t last) {
    std::byte* const leader = at(0, memory) + first * element;
    const std::span<std::byte* const> targets =
        num_nodes_ == 1 ? std::span<std::byte* const>(copies_) : std::span(&leader, 1);
    reduce_elements(dtype, op, {copies_.data(), copies_.size()}, targets, last - first, divisor);
  };
  if (parts.empty()) {
    for (int r = 0; r < local_size_; ++r) {
      copies_[static_cast<std::size_t>(r)] = at(r, memory) + begin * element;
    }
    return sum_copies(begin, end);
  }
  const auto starts_after = [](std::size_t position, const Part& part) {
    return position < static_cast<std::size_t>(part.offset);
  };
  auto part = std::upper_bound(parts.begin(), parts.end(), begin, starts_after);
  if (part != parts.begin()) --part;
  for (; part != parts.end() && static_cast<std::size_t>(part->offset) < end; ++part) {
    const auto offset = static_cast<std::size_t>(part->offset);
    const std::size_t first = std::max(begin, offset);
    const std::size_t last = std::min(end, offset + static_cast<std::size_t>(part->values.numel()));
    if (first >= last) continue;
    for (int r = 0; r < local_size_; ++r) {
      const auto rank = static_cast<std::size_t>(r);
      const auto* places = reinterpret_cast<const Place*>(places_->segments()[rank]);
      copies_[rank] = at(r, places[part - parts.begin()]) + (first - offset) * element;
    }
    sum_copies(first, last);
  }
}

void HostCommunicator::reduce_by_mpi(const MpiComm& comm, std::byte* data, at::ScalarType dtype,
                                     std::size_t count, ReduceOp op, int divisor) {
  const std::size_t element = c10::elementSize(dtype);
  const std::size_t piece = kPiece / element;
  const MpiReduction reduction = mpi_reduction(dtype, op);
  for (std::size_t begin = 0; begin < count; begin += piece) {
    const std::size_t n = std::min(piece, count - begin);
    std::byte* part = data + begin * element;
    comm.call("all_reduce", [&](MPI_Comm ranks) {
      return MPI_Allreduce(MPI_IN_PLACE, part, static_cast<int>(n), reduction.type, reduction.op, ranks);
    });
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
  for (std::size_t begin = 0; begin < bytes; begin += kPiece) {
    comm_.call("broadcast", [&](MPI_Comm ranks) {
      return MPI_Bcast(data + begin, static_cast<int>(std::min(kPiece, bytes - begin)), MPI_BYTE, root, ranks);
    });
  }
}

}  // namespace cxtrain
