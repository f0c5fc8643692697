#include "cxtrain/comm/node/window_collectives.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/comm/mpi_collectives.h"
#include "cxtrain/comm/node/node_sum.h"
#include "cxtrain/comm/reduce_kernels.h"
#include "cxtrain/memory/malloc_tuning.h"

namespace cxtrain {
namespace {

/// Large enough to stream, small enough that all ranks work in the same neighbourhood.
constexpr std::size_t kBlock = std::size_t{512} << 10;

std::byte* place_of(const NodeMemory::Slice& slice, const at::Tensor& memory) {
  return static_cast<std::byte*>(memory.mutable_data_ptr()) +
         static_cast<std::size_t>(slice.offset) * memory.itemsize();
}

/// Copies slices that lie elsewhere into the memory.
void gather(const at::Tensor& memory, std::span<const NodeMemory::Slice> slices) {
  for (const NodeMemory::Slice& slice : slices) {
    const auto* values = static_cast<const std::byte*>(slice.values.const_data_ptr());
    if (values != place_of(slice, memory))
      std::copy_n(values, slice.values.nbytes(), place_of(slice, memory));
  }
}

}  // namespace

WindowCollectives::WindowCollectives(const MpiComm& comm, int node, NetworkWay way)
    : comm_(comm),
      node_comm_(comm.split(node, comm.rank())),
      node_(node),
      local_rank_(node_comm_.rank()),
      local_size_(node_comm_.size()),
      barrier_(node_comm_) {
  copies_.resize(static_cast<std::size_t>(local_size_));
  rail_ = comm_.split(local_rank_, node);
  if (local_rank_ == 0) num_nodes_ = rail_.size();
  node_comm_.call("the number of nodes",
                  [&](MPI_Comm node_ranks) { return MPI_Bcast(&num_nodes_, 1, MPI_INT, 0, node_ranks); });
  if (num_nodes_ == 1) return;
  network_ = open_node_network(comm_, node_comm_, rail_, way, barrier_.has_cores_to_spare());
  if (network_) find_places();
}

void WindowCollectives::find_places() {
  if (!comm_.on_all_ranks("the ranks of a node", network_->couriers == local_size_)) return;
  places_.resize(static_cast<std::size_t>(num_nodes_));
  const int own = comm_.rank();
  rail_.call("the ranks in one place of their nodes", [&](MPI_Comm rail) {
    return MPI_Allgather(&own, 1, MPI_INT, places_.data(), 1, MPI_INT, rail);
  });
}

std::optional<double> WindowCollectives::seconds_between_nodes(std::int64_t bytes) const {
  if (!network_) return std::nullopt;
  // A node sends each element twice, save for its own share: once to be summed, and once as a result.
  const double sent = 2.0 * (num_nodes_ - 1) / num_nodes_ * static_cast<double>(bytes);
  return sent / network_->couriers / network_->bytes_per_second;
}

std::string WindowCollectives::way_between_nodes() const {
  return network_ && network_->by_tcp ? "TCP, beside backward" : "MPI";
}

std::shared_ptr<std::byte> WindowCollectives::allocate(std::size_t bytes) {
  drop_unused();
  std::optional<SharedWindow> window = SharedWindow::allocate(node_comm_, bytes);
  const bool complete = window.has_value() && (num_nodes_ == 1 || network_.has_value());
  // Nodes may differ in shared memory; the way of reducing must not.
  if (!comm_.on_all_ranks("shared memory for gradients", complete)) return nullptr;
  std::shared_ptr<std::byte> own = window->share_own();
  windows_.push_back({std::move(*window), false});
  return own;
}

/// Ranks have to agree: a location names its window by number.
void WindowCollectives::drop_unused() {
  join();  // exchanges under way have the numbers of windows
  if (windows_.empty()) return;
  std::vector<char> used;
  for (const Window& window : windows_) used.push_back(window.memory.is_shared() ? 1 : 0);
  node_comm_.call("unused memory", [&](MPI_Comm node) {
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
  // The owners of earlier pools go on using the tables.
  const std::size_t entries = std::max(sizes.size(), locations_ ? table_entries() : 0);
  std::optional<SharedWindow> locations =
      SharedWindow::allocate(node_comm_, kTables * entries * sizeof(Location));
  if (!locations) return nullptr;
  locations_.emplace(std::move(*locations));
  auto pool = std::make_shared<MemPool>(window->share_own(), sizes);
  windows_.push_back({std::move(*window), true});
  return pool;
}

std::shared_ptr<NodeArena> WindowCollectives::arena(std::span<const std::size_t> share_bytes) {
  if (num_nodes_ > 1 || local_size_ == 1) return nullptr;
  std::shared_ptr<SharedMemory> memory =
      SharedMemory::of_node(node_comm_, NodeArena::bytes_for(share_bytes, local_size_));
  if (memory == nullptr) return nullptr;
  std::shared_ptr<NodeArena> arena = NodeArena::map(std::move(memory), share_bytes, local_rank_, local_size_);
  return node_comm_.on_all_ranks("rows for the ranks of a node", arena != nullptr) ? arena : nullptr;
}

void WindowCollectives::begin_update(NodeArena& arena) {
  arena.find_written();
  barrier_.wait("begin_update");  // nobody uses the rows
  arena.take_over_written();
}

void WindowCollectives::end_update(NodeArena& arena) {
  barrier_.wait("end_update");  // every share is written
  arena.drop_copies();
}

std::optional<WindowCollectives::Location> WindowCollectives::find_anywhere(const void* address) const {
  for (std::uint32_t i = 0; i < windows_.size(); ++i) {
    const SharedWindow& window = windows_[i].memory;
    if (!window.contains(address)) continue;
    return Location{i, static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - window.own())};
  }
  return std::nullopt;
}

std::optional<WindowCollectives::Location> WindowCollectives::find(const void* address) const {
  const std::optional<Location> location = find_anywhere(address);
  return location && !windows_[location->window].of_pool ? location : std::nullopt;
}

void WindowCollectives::all_reduce_slices(const at::Tensor& memory, std::span<const Slice> slices,
                                          ReduceOp op, std::optional<at::ScalarType> wire) {
  if (comm_.size() == 1 || memory.numel() == 0) return;
  const std::optional<Location> whole = find(memory.const_data_ptr());
  if (!whole) return all_reduce_gathered(memory, slices, op);
  const auto count = static_cast<std::size_t>(memory.numel());
  if (wire && c10::elementSize(*wire) >= memory.itemsize()) wire.reset();
  if (network_) return begin_exchange(*whole, memory.scalar_type(), count, slices, op, wire);
  if (!locations_) slices = {};
  if (!slices.empty()) note_locations(slices, 0, "all_reduce_slices");
  all_reduce_on_node(*whole, memory.scalar_type(), count, slices, op);
}

WindowCollectives::Location* WindowCollectives::table_of(int local_rank, std::size_t table) const {
  return reinterpret_cast<Location*>(locations_->segment(local_rank)) + table * table_entries();
}

void WindowCollectives::note_locations(std::span<const Slice> slices, std::size_t table,
                                       const char* operation, std::size_t first) {
  if (first + slices.size() > table_entries()) {
    throw CommunicationError(std::string(operation) + ": " + std::to_string(slices.size()) +
                                 " slices, more than mem_pool was made for",
                             MessageCode::bad_tensor);
  }
  Location* const own = table_of(local_rank_, table) + first;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].values.numel() == 0) continue;
    const std::optional<Location> location = find_anywhere(slices[i].values.const_data_ptr());
    if (!location)
      throw CommunicationError(std::string(operation) + ": a slice lies outside the communicator's memory",
                               MessageCode::bad_tensor);
    own[i] = *location;
  }
}

/// Where `memory` is not shared, for want of room: the slices are copied into it and back.
void WindowCollectives::all_reduce_gathered(const at::Tensor& memory, std::span<const Slice> slices,
                                            ReduceOp op) {
  gather(memory, slices);
  all_reduce_by_mpi(memory, op);
  for (const Slice& slice : slices) {
    const std::byte* const sum = place_of(slice, memory);
    auto* values = static_cast<std::byte*>(slice.values.mutable_data_ptr());
    if (values != sum) std::copy_n(sum, slice.values.nbytes(), values);
  }
}

void WindowCollectives::all_reduce_by_mpi(const at::Tensor& memory, ReduceOp op) {
  mpi_all_reduce(comm_, static_cast<std::byte*>(memory.mutable_data_ptr()), memory.scalar_type(),
                 static_cast<std::size_t>(memory.numel()), op, divisor_of(op));
}

void WindowCollectives::begin_scatter(Scatter scatter, ReduceOp op) {
  const std::optional<Location> memory = find(scatter.memory.const_data_ptr());
  if (memory && !places_.empty()) return begin_scatter_over_nodes(*memory, scatter, op);
  if (!memory || !locations_ || num_nodes_ > 1) return scatter_at_once(scatter, op);
  if (!scatters_) scatters_.emplace(node_comm_);
  combine_announced();
  table_ = table_ == 1 ? 2 : 1;
  note_locations(scatter.slices, table_, "begin_scatter");
  announced_ = Announced{std::move(scatter), op};
  scatters_->arrive();
}

void WindowCollectives::begin_scatter_over_nodes(Location memory, const Scatter& scatter, ReduceOp op) {
  make_room_for(scatter.slices);
  const auto count = static_cast<std::size_t>(scatter.output.numel());
  const std::uint64_t number = ++exchanges_;
  ShardSum::Shards shards{.first = {}, .count = count, .memory = scatter.memory, .output = scatter.output};
  for (const int rank : places_) shards.first.push_back(static_cast<std::size_t>(rank) * count);
  std::unique_ptr<NodeSum> values =
      make_sum(number, memory, scatter.memory.scalar_type(), 0,
               count * static_cast<std::size_t>(comm_.size()), scatter.slices, op, /*wire=*/{});
  network_->board.arrive(number);
  network_->courier->post(
      std::make_unique<ShardSum>(std::move(values), op, divisor_of(op), std::move(shards)));
  if (scatter_before_ > joined_) wait_until_finished(scatter_before_);
  scatter_before_ = std::exchange(last_scatter_, number);
}

void WindowCollectives::end_scatters() {
  if (!places_.empty()) return join();
  if (!announced_) return;
  combine_announced();
  scatters_->wait("end_scatters");  // everyone has read the slices
}

void WindowCollectives::combine_announced() {
  if (!announced_) return;
  scatters_->finish("begin_scatter");  // every rank's values are written
  const auto& [output, memory, slices] = announced_->scatter;
  const std::size_t begin = static_cast<std::size_t>(output.numel()) * static_cast<std::size_t>(local_rank_);
  const int divisor = divisor_of(announced_->op);
  auto* const result = static_cast<std::byte*>(output.mutable_data_ptr());
  for (const auto& [index, first, last] :
       parts_of(slices, begin, begin + static_cast<std::size_t>(output.numel()))) {
    std::byte* const target = result + (first - begin) * memory.itemsize();
    reduce_elements(memory.scalar_type(), announced_->op, copies_of(slices[index], index, first, table_),
                    {&target, 1}, last - first, divisor);
  }
  announced_.reset();
}

/// Over several nodes, or where no memory is shared, for want of room.
void WindowCollectives::scatter_at_once(const Scatter& scatter, ReduceOp op) {
  const auto& [output, memory, slices] = scatter;
  gather(memory, slices);
  auto* const result = static_cast<std::byte*>(output.mutable_data_ptr());
  const auto count = static_cast<std::size_t>(output.numel());
  const std::optional<Location> whole = find(memory.const_data_ptr());
  if (whole && num_nodes_ == 1) return reduce_scatter(result, *whole, memory.scalar_type(), count, op);
  if (whole)
    all_reduce(*whole, memory.scalar_type(), static_cast<std::size_t>(memory.numel()), op);
  else
    all_reduce_by_mpi(memory, op);
  const auto* const sums = static_cast<const std::byte*>(memory.const_data_ptr());
  std::copy_n(sums + output.nbytes() * static_cast<std::size_t>(comm_.rank()), output.nbytes(), result);
}

void WindowCollectives::all_reduce(Location memory, c10::ScalarType dtype, std::size_t count, ReduceOp op) {
  if (!network_) return all_reduce_on_node(memory, dtype, count, {}, op);
  begin_exchange(memory, dtype, count, {}, op, /*wire=*/{});
  join();
}

void WindowCollectives::all_reduce_on_node(Location memory, c10::ScalarType dtype, std::size_t count,
                                           std::span<const Slice> slices, ReduceOp op) {
  const std::size_t element = c10::elementSize(dtype);
  const auto ranks = static_cast<std::size_t>(local_size_), self = static_cast<std::size_t>(local_rank_);
  const std::size_t rounds = divide_up(count * element, ranks * kBlock), grain = kCacheLine / element;
  const std::size_t block = round_up(divide_up(count, ranks * rounds), grain);

  barrier_.wait("all_reduce");  // every rank's values are written
  // Backwards, and side by side: what was written last may still be in a cache that the ranks share.
  for (std::size_t round = rounds; round-- > 0;) {
    const std::size_t begin = std::min(count, (round * ranks + self) * block),
                      end = std::min(count, begin + block);
    if (begin < end) sum_block(memory, dtype, begin, end, slices, op);
  }
  barrier_.wait("all_reduce");  // every block is summed
}

/// Elements [begin, end) of all ranks' copies; the result goes into all of them.
void WindowCollectives::sum_block(const Location& memory, c10::ScalarType dtype, std::size_t begin,
                                  std::size_t end, std::span<const Slice> slices, ReduceOp op) {
  const auto sum_copies = [&](std::size_t first, std::size_t last) {
    reduce_elements(dtype, op, {copies_.data(), copies_.size()}, copies_, last - first, divisor_of(op));
  };
  if (slices.empty()) {
    copies_of({memory.window, memory.offset + begin * c10::elementSize(dtype)});
    return sum_copies(begin, end);
  }
  for (const auto& [index, first, last] : parts_of(slices, begin, end)) {
    copies_of(slices[index], index, first, /*table=*/0);
    sum_copies(first, last);
  }
}

std::span<const WindowCollectives::Part> WindowCollectives::parts_of(std::span<const Slice> slices,
                                                                     std::size_t begin, std::size_t end) {
  auto slice = std::ranges::upper_bound(slices, static_cast<std::int64_t>(begin), {}, &Slice::offset);
  if (slice != slices.begin()) --slice;
  parts_.clear();
  for (; slice != slices.end() && static_cast<std::size_t>(slice->offset) < end; ++slice) {
    const auto offset = static_cast<std::size_t>(slice->offset);
    const std::size_t first = std::max(begin, offset);
    const std::size_t last = std::min(end, offset + static_cast<std::size_t>(slice->values.numel()));
    if (first < last) parts_.push_back({static_cast<std::size_t>(slice - slices.begin()), first, last});
  }
  return parts_;
}

std::span<const std::byte* const> WindowCollectives::copies_of(const Slice& slice, std::size_t index,
                                                               std::size_t first, std::size_t table) {
  const std::size_t bytes = (first - static_cast<std::size_t>(slice.offset)) * slice.values.itemsize();
  for (int r = 0; r < local_size_; ++r)
    copies_[static_cast<std::size_t>(r)] = at(r, table_of(r, table)[index]) + bytes;
  return {copies_.data(), copies_.size()};
}

std::span<const std::byte* const> WindowCollectives::copies_of(Location location) {
  for (int r = 0; r < local_size_; ++r) copies_[static_cast<std::size_t>(r)] = at(r, location);
  return {copies_.data(), copies_.size()};
}

void WindowCollectives::reduce_scatter(std::byte* output, Location input, c10::ScalarType dtype,
                                       std::size_t count, ReduceOp op) {
  barrier_.wait("reduce_scatter");  // every rank's values are written
  input.offset += count * c10::elementSize(dtype) * static_cast<std::size_t>(local_rank_);
  reduce_elements(dtype, op, copies_of(input), {&output, 1}, count, divisor_of(op));
  barrier_.wait("reduce_scatter");  // everyone has read them
}

void WindowCollectives::make_room_for(std::span<const Slice> slices) {
  if (locations_ && noted_ + slices.size() > table_entries()) join();
}

std::unique_ptr<NodeSum> WindowCollectives::make_sum(std::uint64_t number, Location memory,
                                                     c10::ScalarType dtype, std::size_t begin,
                                                     std::size_t end, std::span<const Slice> slices,
                                                     ReduceOp op, std::optional<c10::ScalarType> wire) {
  auto sum = std::make_unique<NodeSum>(*this, network_->board,
                                       NodeSum::Sum{number, memory, dtype, wire, op, divisor_of(op)},
                                       NodeSum::Range{begin, end});
  if (!locations_) return sum;
  note_locations(slices, /*table=*/0, "a sum over nodes", noted_);
  for (const Slice& slice : slices) {
    const auto offset = static_cast<std::size_t>(slice.offset);
    sum->add_slice(offset, offset + static_cast<std::size_t>(slice.values.numel()), noted_++);
  }
  return sum;
}

void WindowCollectives::begin_exchange(Location memory, c10::ScalarType dtype, std::size_t count,
                                       std::span<const Slice> slices, ReduceOp op,
                                       std::optional<c10::ScalarType> wire) {
  make_room_for(slices);
  const std::uint64_t number = ++exchanges_;
  const std::size_t grain = kCacheLine / c10::elementSize(dtype);
  const std::size_t part = round_up(divide_up(count, static_cast<std::size_t>(network_->couriers)), grain);
  const std::size_t begin = std::min(count, part * static_cast<std::size_t>(local_rank_));
  std::unique_ptr<NodeSum> sum =
      make_sum(number, memory, dtype, begin, std::min(count, begin + part), slices, op, wire);
  network_->board.arrive(number);
  if (network_->courier) network_->courier->post(std::move(sum));
}

void WindowCollectives::wait_until_finished(std::uint64_t exchange) {
  if (network_->courier)
    return network_->courier->wait_until_finished(network_->board, exchange, network_->couriers);
  const Watchdog::Wait wait(comm_.watchdog(), kOverNodes);
  network_->board.wait_until_finished(exchange, network_->couriers);
}

void WindowCollectives::join() {
  if (!network_ || joined_ == exchanges_) return;
  wait_until_finished(exchanges_);
  joined_ = exchanges_;
  noted_ = 0;
}

void WindowCollectives::all_gather(Location output, std::size_t bytes) {
  if (num_nodes_ > 1) {
    ShardGather::Shards shards{
        .number = ++exchanges_, .memory = output, .first = {}, .bytes = bytes, .local_rank = local_rank_};
    for (const int rank : places_) shards.first.push_back(static_cast<std::size_t>(rank) * bytes);
    const std::uint64_t number = shards.number;
    network_->board.arrive(number);
    return network_->courier->post(std::make_unique<ShardGather>(*this, network_->board, std::move(shards)));
  }
  barrier_.wait("all_gather");  // every share is written, and nobody uses the old values
  // Fetched rather than sent: what a rank reads next then lies in its own caches. Each begins with its
  // neighbour, so that no two read from one.
  for (int step = 1; step < local_size_; ++step) {
    const int other = (local_rank_ + step) % local_size_;
    const Location share{output.window, output.offset + static_cast<std::size_t>(other) * bytes};
    std::copy_n(at(other, share), bytes, at(local_rank_, share));
  }
  barrier_.wait("all_gather");  // everyone has read them
}

}  // namespace cxtrain
