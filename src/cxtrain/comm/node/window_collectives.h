#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/between_nodes/node_network.h"
#include "cxtrain/comm/node/node_barrier.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/comm/node/shared_memory.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

class NodeSum;

/// Collectives in memory that the ranks of a node share, where it lies: each rank reads the others' copies,
/// and nothing is packed, sent or unpacked (2 to 8 times faster than MPI_Allreduce, benchmarks/RESULTS.md).
///
/// Over several nodes, `all_reduce_slices` is divided among the ranks of a node: each has a courier, which
/// sums its part over the node, exchanges the part with the courier in the same place of every other node,
/// and writes the result for all ranks of the node, while the ranks compute. If all nodes have equally many
/// ranks, `begin_scatter` and `all_gather` are divided among couriers, too: the courier of a rank carries the
/// shards of the ranks that have the rank's place on their nodes. All other sums over nodes are finished on
/// return.
class WindowCollectives final : public NodeMemory {
 public:
  /// Collective over `comm`, which outlives this. `node`: a number that ranks have in common that can share
  /// memory. The ranks of a node keep the order that they have in `comm`.
  WindowCollectives(const MpiComm& comm, int node, NetworkWay way);

  int num_nodes() const noexcept { return num_nodes_; }
  int local_size() const noexcept { return local_size_; }
  int node() const noexcept { return node_; }
  /// Returns whether `all_reduce_slices` runs beside the caller's work. By MPI, sums proceed only while the
  /// rank calls this object.
  bool overlaps() const noexcept { return network_ && network_->by_tcp; }
  /// See `Communicator::seconds_between_nodes`.
  std::optional<double> seconds_between_nodes(std::int64_t bytes) const;
  /// Returns the size of a message, in bytes, that suits the links between nodes; absent without links.
  std::optional<std::int64_t> message_bytes() const {
    return network_ ? std::optional(network_->message_bytes) : std::nullopt;
  }
  /// See `Communicator::connections`.
  std::vector<ConnectionUse> connections() const {
    return network_ && network_->tcp_links != nullptr ? network_->tcp_links->use()
                                                      : std::vector<ConnectionUse>();
  }
  /// "TCP, beside backward" or "MPI"; of several nodes.
  std::string way_between_nodes() const;
  /// Waits until the results of what runs beside the caller's work are there.
  void join();

  /// Memory for collectives. Collective over all ranks; null, on all of them alike, where a node cannot share
  /// so much. Memory that no rank of this node holds any more is given back at this occasion.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// Where in the windows an address of this rank lies.
  struct Location {
    std::uint32_t window;
    std::uint64_t offset;  ///< bytes
  };
  /// For an address in memory of `allocate`.
  std::optional<Location> find(const void* address) const;
  /// The address of a location in the memory of a rank of the node.
  std::byte* at(int local_rank, Location location) const {
    return windows_[location.window].memory.segment(local_rank) + location.offset;
  }
  /// Where a rank of the node has the values of a slice of `all_reduce_slices`, by the slice's number.
  std::byte* at_noted(int local_rank, std::size_t slice) const {
    return at(local_rank, table_of(local_rank, /*table=*/0)[slice]);
  }

  void all_reduce(Location memory, c10::ScalarType dtype, std::size_t count, ReduceOp op);
  /// On one node. `count` elements of `output`, which may be this rank's share of the memory at `input`. As
  /// `all_reduce` would leave them there, to the bit.
  void reduce_scatter(std::byte* output, Location input, c10::ScalarType dtype, std::size_t count,
                      ReduceOp op);
  /// Returns whether `all_gather` works: on one node, and over nodes whose ranks all have couriers.
  bool gathers() const noexcept { return num_nodes_ == 1 || !places_.empty(); }
  /// Every rank's `bytes` bytes, this rank's where they belong in `output`. Over nodes, the others' are there
  /// after `join`.
  void all_gather(Location output, std::size_t bytes);

 private:
  std::shared_ptr<MemPool> mem_pool(std::span<const std::size_t> sizes) override;
  void all_reduce_slices(const at::Tensor& memory, std::span<const Slice> slices, ReduceOp op,
                         std::optional<at::ScalarType> wire) override;
  void begin_scatter(Scatter scatter, ReduceOp op) override;
  void end_scatters() override;
  std::shared_ptr<NodeArena> arena(std::span<const std::size_t> share_bytes) override;
  void begin_update(NodeArena& arena) override;
  void end_update(NodeArena& arena) override;

  struct Window {
    SharedWindow memory;
    bool of_pool;  ///< tensors lie in it as it comes, on each rank elsewhere
  };

  std::optional<Location> find_anywhere(const void* address) const;
  void drop_unused();
  void all_reduce_on_node(Location memory, c10::ScalarType dtype, std::size_t count,
                          std::span<const Slice> slices, ReduceOp op);
  void all_reduce_gathered(const at::Tensor& memory, std::span<const Slice> slices, ReduceOp op);
  void all_reduce_by_mpi(const at::Tensor& memory, ReduceOp op);
  int divisor_of(ReduceOp op) const { return op == ReduceOp::avg ? comm_.size() : 1; }
  /// A scatter that all ranks have yet to combine.
  struct Announced {
    Scatter scatter;
    ReduceOp op;
  };
  void scatter_at_once(const Scatter& scatter, ReduceOp op);
  /// Waits until every rank has announced what this rank has, and combines it.
  void combine_announced();
  /// Table `table` of a rank: where the values of the slices of a call lie. Calls that overlap have tables of
  /// their own.
  Location* table_of(int local_rank, std::size_t table) const;
  /// Slices that a table has room for.
  std::size_t table_entries() const { return locations_->bytes() / (kTables * sizeof(Location)); }
  /// Notes for the other ranks where the values of this rank's slices lie, from entry `first` of the table
  /// on.
  void note_locations(std::span<const Slice> slices, std::size_t table, const char* operation,
                      std::size_t first = 0);
  /// Elements [first, last) of the memory that the slices belong to, which lie in slice `index`.
  struct Part {
    std::size_t index, first, last;
  };
  /// The parts of elements [begin, end) that lie in slices; valid until the next call.
  std::span<const Part> parts_of(std::span<const Slice> slices, std::size_t begin, std::size_t end);
  /// All ranks' copies of what begins at element `first` of the slice's values.
  std::span<const std::byte* const> copies_of(const Slice& slice, std::size_t index, std::size_t first,
                                              std::size_t table);
  void sum_block(const Location& memory, c10::ScalarType dtype, std::size_t begin, std::size_t end,
                 std::span<const Slice> slices, ReduceOp op);
  /// All ranks' copies of what begins at `location`.
  std::span<const std::byte* const> copies_of(Location location);

  /// Sets `places_`. Collective over all ranks.
  void find_places();
  /// Waits, if no room is left, for the exchanges whose slices are noted.
  void make_room_for(std::span<const Slice> slices);
  /// The elements of a sum over all ranks, which lie in slices, or, without slices, in the memory. Notes
  /// where this rank's slices lie.
  std::unique_ptr<NodeSum> make_sum(std::uint64_t number, Location memory, c10::ScalarType dtype,
                                    std::size_t begin, std::size_t end, std::span<const Slice> slices,
                                    ReduceOp op, std::optional<c10::ScalarType> wire);
  void begin_scatter_over_nodes(Location memory, const Scatter& scatter, ReduceOp op);
  /// Waits until the couriers of this node have finished an exchange.
  void wait_until_finished(std::uint64_t exchange);
  /// Divides the exchange of a memory's slices among the node's couriers.
  void begin_exchange(Location memory, c10::ScalarType dtype, std::size_t count,
                      std::span<const Slice> slices, ReduceOp op, std::optional<c10::ScalarType> wire);

  /// For `all_reduce_slices`, and for the two scatters that may be under way.
  static constexpr std::size_t kTables = 3;

  const MpiComm& comm_;
  MpiComm node_comm_;
  MpiComm rail_;  ///< the ranks with this local rank, one of each node
  int node_, local_rank_, local_size_, num_nodes_ = 1;
  NodeBarrier barrier_;
  std::optional<NodeBarrier> scatters_;  ///< between announcing and combining; made by the first scatter
  std::optional<Announced> announced_;
  std::size_t table_ = 0;        ///< of the last scatter: 1 or 2
  std::vector<Window> windows_;  ///< the same on all ranks of the node
  /// For `mem_pool`'s slices: `kTables` tables of where each lies, written by every rank before it comes to
  /// the barrier.
  std::optional<SharedWindow> locations_;
  std::vector<std::byte*> copies_;  ///< of the elements at hand, one per rank of the node
  std::vector<Part> parts_;
  /// For each node the rank, of all ranks, in this rank's place; empty if nodes have different numbers of
  /// ranks, or share no memory.
  std::vector<int> places_;
  std::uint64_t exchanges_ = 0;                          ///< begun
  std::uint64_t last_scatter_ = 0, scatter_before_ = 0;  ///< the exchanges of the last two scatters
  std::uint64_t joined_ = 0;                             ///< exchanges that `join` has waited for
  std::size_t noted_ = 0;  ///< entries of table 0 that belong to exchanges which are not joined
  /// Absent on one node, and if a node cannot share memory. After the windows, which a courier reads.
  std::optional<NodeNetwork> network_;
};

}  // namespace cxtrain
