#include "cxtrain/comm/node/window_collectives.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/comm/mpi_collectives.h"
#include "cxtrain/comm/reduce_kernels.h"
#include "cxtrain/memory/kept_memory.h"

namespace cxtrain {
namespace {

/// Large enough to stream, small enough that all ranks work in the same neighbourhood.
constexpr std::size_t kBlock = std::size_t{512} << 10;

}  // namespace

WindowCollectives::WindowCollectives(const MpiComm& comm, int node)
    : comm_(comm),
      node_comm_(comm.split(node, comm.rank())),
      node_(node),
      local_rank_(node_comm_.rank()),
      local_size_(node_comm_.size()),
      barrier_(node_comm_) {
  copies_.resize(static_cast<std::size_t>(local_size_));
  leaders_ = comm_.split(local_rank_ == 0 ? 0 : MPI_UNDEFINED, comm_.rank());
  if (local_rank_ == 0) num_nodes_ = leaders_.size();
  node_comm_.call("the number of nodes",
                  [&](MPI_Comm node_ranks) { return MPI_Bcast(&num_nodes_, 1, MPI_INT, 0, node_ranks); });
  if (num_nodes_ > 1) piece_ = SharedWindow::allocate(node_comm_, kMpiPiece);
}

std::shared_ptr<SharedMemory> WindowCollectives::allocate(std::size_t bytes) {
  drop_unused();
  std::optional<SharedWindow> window = SharedWindow::allocate(node_comm_, bytes);
  const bool complete = window.has_value() && (num_nodes_ == 1 || piece_.has_value());
  // Nodes may differ in shared memory; the way of reducing must not.
  if (!comm_.on_all_ranks("shared memory for gradients", complete)) return nullptr;
  std::shared_ptr<SharedMemory> mine = window->memory();
  windows_.push_back({std::move(*window), false});
  return mine;
}

/// Ranks have to agree: a place names its window by number.
void WindowCollectives::drop_unused() {
  if (windows_.empty()) return;
  std::vector<char> used;
  for (const Window& window : windows_) used.push_back(window.memory.memory().use_count() > 1 ? 1 : 0);
  node_comm_.call("memory that nobody uses any more", [&](MPI_Comm node) {
    return MPI_Allreduce(MPI_IN_PLACE, used.data(), static_cast<int>(used.size()), MPI_SIGNED_CHAR, MPI_MAX,
                         node);
  });
  for (std::size_t i = used.size(); i-- > 0;) {
    if (used[i] == 0) windows_.erase(windows_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::shared_ptr<MemPool> WindowCollectives::mem_pool(std::span<const std::size_t> sizes) {
  const std::size_t bytes = MemPool::bytes_for(sizes);
  const bool possible = bytes > 0 && local_size_ > 1 && tensor_pools_in_effect();
  if (!node_comm_.on_all_ranks("mem_pool", possible)) return nullptr;
  drop_unused();
  std::optional<SharedWindow> window = SharedWindow::allocate(node_comm_, bytes);
  if (!window) return nullptr;
  std::optional<SharedWindow> places = SharedWindow::allocate(node_comm_, sizes.size() * sizeof(Place));
  if (!places) return nullptr;
  places_.emplace(std::move(*places));
  auto pool = std::make_shared<MemPool>(window->memory(), sizes);
  windows_.push_back({std::move(*window), true});
  return pool;
}

std::optional<WindowCollectives::Place> WindowCollectives::find_anywhere(const void* address) const {
  for (std::uint32_t i = 0; i < windows_.size(); ++i) {
    const SharedWindow& window = windows_[i].memory;
    if (!window.contains(address)) continue;
    return Place{i, static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - window.mine())};
  }
  return std::nullopt;
}

std::optional<WindowCollectives::Place> WindowCollectives::find(const void* address) const {
  const std::optional<Place> place = find_anywhere(address);
  return place && !windows_[place->window].of_pool ? place : std::nullopt;
}

void WindowCollectives::all_reduce_parts(const at::Tensor& memory, std::span<const Part> parts, ReduceOp op) {
  if (comm_.size() == 1 || memory.numel() == 0) return;
  const std::optional<Place> whole = find(memory.const_data_ptr());
  if (!whole) return all_reduce_gathered(memory, parts, op);
  const auto count = static_cast<std::size_t>(memory.numel());
  if (!places_ || parts.empty()) return all_reduce(*whole, memory.scalar_type(), count, op);
  if (parts.size() * sizeof(Place) > places_->bytes()) {
    throw CommunicationError("all_reduce_parts: " + std::to_string(parts.size()) +
                             " parts, more than mem_pool was told of");
  }
  auto* mine = reinterpret_cast<Place*>(places_->mine());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].values.numel() == 0) continue;
    const std::optional<Place> place = find_anywhere(parts[i].values.const_data_ptr());
    if (!place) throw CommunicationError("all_reduce_parts: a part lies outside the communicator's memory");
    mine[i] = *place;
  }
  all_reduce(*whole, memory.scalar_type(), count, parts, op);
}

/// Where `memory` is not shared, for want of room: the parts are copied into it and back.
void WindowCollectives::all_reduce_gathered(const at::Tensor& memory, std::span<const Part> parts,
                                            ReduceOp op) {
  auto* const data = static_cast<std::byte*>(memory.mutable_data_ptr());
  const auto place = [&](const Part& part) {
    return data + static_cast<std::size_t>(part.offset) * memory.element_size();
  };
  for (const Part& part : parts) {
    const auto* values = static_cast<const std::byte*>(part.values.const_data_ptr());
    if (values != place(part)) std::copy_n(values, part.values.nbytes(), place(part));
  }
  mpi_all_reduce(comm_, data, memory.scalar_type(), static_cast<std::size_t>(memory.numel()), op,
                 op == ReduceOp::avg ? comm_.size() : 1);
  for (const Part& part : parts) {
    auto* values = static_cast<std::byte*>(part.values.mutable_data_ptr());
    if (values != place(part)) std::copy_n(place(part), part.values.nbytes(), values);
  }
}

void WindowCollectives::all_reduce(Place memory, c10::ScalarType dtype, std::size_t count,
                                   std::span<const Part> parts, ReduceOp op) {
  const std::size_t element = c10::elementSize(dtype);
  const auto ranks = static_cast<std::size_t>(local_size_), mine = static_cast<std::size_t>(local_rank_);
  const std::size_t rounds = divide_up(count * element, ranks * kBlock), grain = kCacheLine / element;
  const std::size_t block = round_up(divide_up(count, ranks * rounds), grain);
  const int divisor = op == ReduceOp::avg ? comm_.size() : 1;

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
  if (local_rank_ == 0) mpi_all_reduce(leaders_, leader, dtype, count, op, divisor);
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
void WindowCollectives::sum_block(const Place& memory, c10::ScalarType dtype, std::size_t begin,
                                  std::size_t end, std::span<const Part> parts, ReduceOp op, int divisor) {
  const std::size_t element = c10::elementSize(dtype);
  const auto sum_copies = [&](std::size_t first, std::size_t last) {
    std::byte* const leader = at(0, memory) + first * element;
    const std::span<std::byte* const> targets =
        num_nodes_ == 1 ? std::span<std::byte* const>(copies_) : std::span(&leader, 1);
    reduce_elements(dtype, op, {copies_.data(), copies_.size()}, targets, last - first, divisor);
  };
  if (parts.empty()) {
    copies_of({memory.window, memory.offset + begin * element});
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

std::span<const std::byte* const> WindowCollectives::copies_of(Place place) {
  for (int r = 0; r < local_size_; ++r) copies_[static_cast<std::size_t>(r)] = at(r, place);
  return {copies_.data(), copies_.size()};
}

void WindowCollectives::reduce_scatter(std::byte* output, Place input, c10::ScalarType dtype,
                                       std::size_t count, ReduceOp op) {
  const int divisor = op == ReduceOp::avg ? comm_.size() : 1;
  barrier_.wait("reduce_scatter");  // every rank's values are written
  if (num_nodes_ > 1) return reduce_scatter_over_nodes(output, input, dtype, count, op, divisor);
  const std::size_t share = count * c10::elementSize(dtype);
  input.offset += share * static_cast<std::size_t>(local_rank_);
  reduce_elements(dtype, op, copies_of(input), {&output, 1}, count, divisor);
  barrier_.wait("reduce_scatter");  // everyone has read them
}

/// In the pieces in which `mpi_all_reduce` sends: how MPI adds up may depend on a message's size.
void WindowCollectives::reduce_scatter_over_nodes(std::byte* output, Place input, c10::ScalarType dtype,
                                                  std::size_t count, ReduceOp op, int divisor) {
  const std::size_t element = c10::elementSize(dtype), share = count * element;
  const std::size_t whole = share * static_cast<std::size_t>(comm_.size());
  const std::size_t first = share * static_cast<std::size_t>(comm_.rank());
  std::byte* const sum = piece_->segments()[0];
  for (std::size_t begin = 0; begin < whole; begin += kMpiPiece) {
    const std::size_t size = std::min(kMpiPiece, whole - begin);
    const std::size_t part = round_up(divide_up(size, static_cast<std::size_t>(local_size_)), kCacheLine);
    const std::size_t mine = std::min(size, part * static_cast<std::size_t>(local_rank_));
    const std::size_t n = std::min(part, size - mine) / element;
    std::byte* const target = sum + mine;
    reduce_elements(dtype, op, copies_of({input.window, input.offset + begin + mine}), {&target, 1}, n, 1);
    barrier_.wait("reduce_scatter");  // the node's sum is complete
    if (local_rank_ == 0) mpi_all_reduce(leaders_, sum, dtype, size / element, op, divisor);
    barrier_.wait("reduce_scatter");  // the leader has the sum over the nodes
    const std::size_t from = std::max(begin, first), to = std::min(begin + size, first + share);
    if (from < to) std::copy_n(sum + (from - begin), to - from, output + (from - first));
    barrier_.wait("reduce_scatter");  // everyone has read it
  }
}

void WindowCollectives::all_gather(Place output, std::size_t bytes) {
  barrier_.wait("all_gather");  // every share is written, and nobody uses the old values
  // Fetched rather than sent: what a rank reads next then lies in its own caches. Each begins with its
  // neighbour, so that no two read from one.
  for (int step = 1; step < local_size_; ++step) {
    const int other = (local_rank_ + step) % local_size_;
    const Place share{output.window, output.offset + static_cast<std::size_t>(other) * bytes};
    std::copy_n(at(other, share), bytes, at(local_rank_, share));
  }
  barrier_.wait("all_gather");  // everyone has read them
}

}  // namespace cxtrain
