#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Named tensors, what a rank holds of one, and how ranks divide them among themselves.
namespace cxtrain {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// "fc.weight: Float [10, 784]".
std::string describe(const NamedTensor& named);

/// Where two lists of descriptions differ first. `first` and `second` are what they have there: `ended` where
/// a list has ended.
struct Difference {
  std::size_t index;
  std::string first, second;
};
std::optional<Difference> first_difference(std::span<const std::string> first,
                                           std::span<const std::string> second, const std::string& ended);

/// Elements [begin, end) of a tensor, in row-major order.
struct ElementRange {
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// What one rank holds of a named tensor: all of it, or a part that others complete.
struct Piece {
  std::string name;
  at::Tensor values;  ///< in the shape of the whole where it is the whole, else flat [range.size()]
  std::vector<std::int64_t> shape;  ///< of the whole
  ElementRange range;               ///< of the whole's elements

  bool is_whole() const { return values.sizes() == at::IntArrayRef(shape); }
};

/// A piece that is the whole tensor.
Piece whole_piece(std::string name, at::Tensor tensor);
std::vector<Piece> whole_pieces(const std::vector<NamedTensor>& tensors);
/// A part of a contiguous tensor: its piece shares the memory.
Piece part_of(const std::string& name, const at::Tensor& tensor, ElementRange range);

/// Copies into each target what `sources` hold of it: pieces of the same name, of whatever ranges. Throws
/// StateError naming a target that they do not cover, or whose whole has another shape there.
void fill_pieces(std::span<const Piece> targets, std::span<const Piece> sources);

/// How ranks divide the elements of tensors of one dtype and device among themselves: flat memory with the
/// tensors one after the other, cut into a share of equal size for each rank.
struct ShardPlan {
  std::int64_t share = 0;                         ///< elements; the memory has one share for each rank
  std::vector<std::int64_t> offsets;              ///< where each tensor begins; elements
  std::vector<std::vector<ElementRange>> shards;  ///< of rank r: its range of each tensor, perhaps empty
};

/// For tensors of `sizes` elements each. Tensors are cut between chunks of norms (`kNormChunk`), which are
/// multiples of every vector register's width as well: elementwise kernels treat every element as they would
/// in the whole, so that who updates an element does not change a bit of it. At least one rank. Pure.
ShardPlan plan_shards(std::span<const std::int64_t> sizes, int ranks);

}  // namespace cxtrain
