#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cxtrain/comm/between_nodes/courier.h"
#include "cxtrain/comm/between_nodes/node_board.h"
#include "cxtrain/comm/node/window_collectives.h"

namespace cxtrain {

/// A part of a sum over all ranks. The courier in one place of each node carries it: it sums the part over
/// the node's ranks, exchanges it, and writes the result for all ranks of the node.
class NodeSum final : public Errand, private ExchangedArray {
 public:
  using Location = WindowCollectives::Location;
  /// The sum that the parts belong to.
  struct Sum {
    std::uint64_t number;  ///< of the exchange
    Location memory;
    c10::ScalarType dtype;
    /// Dtype between nodes; float16 in blocks (`ScaledHalf`), which then are the elements that travel.
    std::optional<c10::ScalarType> wire;
    ReduceOp op;
    int divisor;
  };
  /// Elements [begin, end) of the memory.
  struct Range {
    std::size_t begin, end;
  };
  /// The windows and the board outlive it.
  NodeSum(const WindowCollectives& windows, NodeBoard& board, const Sum& sum, Range range)
      : windows_(windows), board_(board), sum_(sum), range_(range), element_(c10::elementSize(sum.dtype)) {}

  /// The values of elements [first, last) lie where each rank has noted it for this slice. In ascending
  /// order. Without any slice all values lie in the memory.
  void add_slice(std::size_t first, std::size_t last, std::size_t slice);

  Exchange& begin(CourierExchanges& exchanges) override {
    exchanges.slices.begin(*this);
    return exchanges.slices;
  }
  bool wait_for_values(const std::atomic<bool>& stop) override;
  void finished() override { board_.finish(sum_.number); }
  std::size_t bytes() const override { return count() * element_bytes(); }

  c10::ScalarType dtype() const { return sum_.dtype; }
  std::size_t count() const override;
  std::size_t element_bytes() const override;
  void combine(std::span<const std::byte* const> values, std::byte* to, std::size_t count) const override;
  std::byte* in_place(std::size_t first, std::size_t last) override;
  void read(std::size_t first, std::size_t last, std::byte* to) override;
  void write(std::size_t first, std::size_t last, const std::byte* from) override;

 private:
  struct Values {
    std::size_t first, last;           ///< elements of the memory
    std::optional<std::size_t> slice;  ///< absent: in the memory
    std::vector<std::byte*> copies;    ///< of each rank of the node
  };

  bool in_blocks() const { return sum_.wire == c10::ScalarType::Half; }
  /// The elements of the range that travel as elements [first, last) of the exchange.
  Range elements_of(std::size_t first, std::size_t last) const;
  void sum_over_node(std::size_t first, std::size_t last, std::byte* to);
  void spread(std::size_t first, std::size_t last, const std::byte* from) const;
  template <class Work>
  void for_each_part(std::size_t first, std::size_t last, const Work& work) const;

  const WindowCollectives& windows_;
  NodeBoard& board_;
  const Sum sum_;
  const Range range_;
  const std::size_t element_;
  std::vector<Values> values_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte> sums_;  ///< of a chunk, before they are rounded
};

/// Shards of a sum over all ranks. The courier of a rank carries the shards of the ranks that have the rank's
/// place on their nodes. The courier sums a shard over its node, and sends the sum to the rank of the shard.
class ShardSum final : public Errand, private PartedArray {
 public:
  struct Shards {
    std::vector<std::size_t> first;  ///< for each node the first element of the shard of its rank
    std::size_t count;               ///< elements of a shard
    at::Tensor memory;               ///< of all shards
    at::Tensor output;               ///< for this rank's shard of the result
  };
  /// `values`: all elements. Everything but `values` and `shards` outlives it.
  ShardSum(std::unique_ptr<NodeSum> values, ReduceOp op, int divisor, Shards shards)
      : values_(std::move(values)), op_(op), divisor_(divisor), shards_(std::move(shards)) {}

  Exchange& begin(CourierExchanges& exchanges) override {
    exchanges.parts.scatter(*this, op_, divisor_);
    return exchanges.parts;
  }
  bool wait_for_values(const std::atomic<bool>& stop) override { return values_->wait_for_values(stop); }
  void finished() override { values_->finished(); }
  std::size_t bytes() const override {
    return shards_.first.size() * shards_.count * c10::elementSize(dtype());
  }

 private:
  std::size_t count() const override { return shards_.count; }
  c10::ScalarType dtype() const override { return values_->dtype(); }
  std::byte* in_place(int part, std::size_t first, std::size_t last) override {
    return values_->in_place(begin_of(part) + first, begin_of(part) + last);
  }
  void read(int part, std::size_t first, std::size_t last, std::byte* to) override {
    values_->read(begin_of(part) + first, begin_of(part) + last, to);
  }
  void write(int part, std::size_t first, std::size_t last, const std::byte* from) override;
  std::size_t begin_of(int part) const { return shards_.first[static_cast<std::size_t>(part)]; }

  std::unique_ptr<NodeSum> values_;
  const ReduceOp op_;
  const int divisor_;
  const Shards shards_;
};

/// Shards of memory that every rank gets. The courier of a rank carries the shards of the ranks that have the
/// rank's place on their nodes, and writes these shards for all ranks of its node.
class ShardGather final : public Errand, private PartedArray {
 public:
  using Location = WindowCollectives::Location;
  struct Shards {
    std::uint64_t number;            ///< of the exchange
    Location memory;                 ///< of all shards, on each rank; has the rank's own shard
    std::vector<std::size_t> first;  ///< for each node the first byte of the shard of its rank
    std::size_t bytes;               ///< of a shard
    int local_rank;                  ///< this rank's place
  };
  /// The windows and the board outlive it.
  ShardGather(const WindowCollectives& windows, NodeBoard& board, Shards shards)
      : windows_(windows), board_(board), shards_(std::move(shards)) {}

  Exchange& begin(CourierExchanges& exchanges) override {
    exchanges.parts.gather(*this);
    return exchanges.parts;
  }
  bool wait_for_values(const std::atomic<bool>& stop) override {
    return board_.wait_for_all(shards_.number, stop);
  }
  void finished() override;
  std::size_t bytes() const override { return shards_.first.size() * shards_.bytes; }

 private:
  std::size_t count() const override { return shards_.bytes; }
  c10::ScalarType dtype() const override { return c10::ScalarType::Byte; }
  std::byte* in_place(int part, std::size_t first, std::size_t) override {
    return place(shards_.local_rank, part) + first;
  }
  void read(int, std::size_t, std::size_t, std::byte*) override {}
  void write(int, std::size_t, std::size_t, const std::byte*) override {}
  std::byte* place(int local_rank, int part) const {
    return windows_.at(local_rank, shards_.memory) + shards_.first[static_cast<std::size_t>(part)];
  }

  const WindowCollectives& windows_;
  NodeBoard& board_;
  const Shards shards_;
};

}  // namespace cxtrain
