#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cxtrain/comm/between_nodes/courier.h"
#include "cxtrain/comm/between_nodes/node_board.h"
#include "cxtrain/comm/node/window_collectives.h"

namespace cxtrain {

/// A part of a sum over all ranks. The courier in one place of each node carries it: it sums the part over
/// the node's ranks, exchanges it, and writes the result for all ranks of the node.
class NodeSum final : public Errand {
 public:
  using Location = WindowCollectives::Location;
  /// The sum that the parts belong to.
  struct Sum {
    std::uint64_t number;  ///< of the exchange
    Location memory;
    c10::ScalarType dtype;
    std::optional<c10::ScalarType> wire;  ///< dtype between nodes
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

  std::size_t count() const override { return range_.end - range_.begin; }
  c10::ScalarType dtype() const override { return sum_.wire.value_or(sum_.dtype); }
  ReduceOp op() const override { return sum_.op; }
  int divisor() const override { return sum_.divisor; }
  bool wait_for_values(const std::atomic<bool>& stop) override;
  std::byte* in_place(std::size_t first, std::size_t last) override;
  void read(std::size_t first, std::size_t last, std::byte* to) override;
  void write(std::size_t first, std::size_t last, const std::byte* from) override;
  void finished() override { board_.finish(sum_.number); }

 private:
  struct Values {
    std::size_t first, last;           ///< elements of the memory
    std::optional<std::size_t> slice;  ///< absent: in the memory
    std::vector<std::byte*> copies;    ///< of each rank of the node
  };

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

/// The sum over the nodes of what lies in one place.
class SumInPlace final : public Errand {
 public:
  SumInPlace(std::byte* data, c10::ScalarType dtype, std::size_t count, ReduceOp op, int divisor)
      : data_(data),
        dtype_(dtype),
        count_(count),
        element_(c10::elementSize(dtype)),
        op_(op),
        divisor_(divisor) {}

  std::size_t count() const override { return count_; }
  c10::ScalarType dtype() const override { return dtype_; }
  ReduceOp op() const override { return op_; }
  int divisor() const override { return divisor_; }
  bool wait_for_values(const std::atomic<bool>&) override { return true; }
  std::byte* in_place(std::size_t first, std::size_t) override { return data_ + first * element_; }
  void read(std::size_t, std::size_t, std::byte*) override {}
  void write(std::size_t, std::size_t, const std::byte*) override {}
  void finished() override {}

 private:
  std::byte* const data_;
  const c10::ScalarType dtype_;
  const std::size_t count_, element_;
  const ReduceOp op_;
  const int divisor_;
};

}  // namespace cxtrain
