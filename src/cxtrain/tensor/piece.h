#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Named tensors, the part of a tensor that a rank holds, and the division of tensors among ranks.
namespace cxtrain {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// "fc.weight: Float [10, 784]".
std::string describe(const NamedTensor& named);

/// The first difference of two lists of descriptions. `first` and `second`: the descriptions there, or
/// `ended` if a list has ended.
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

/// Values of a piece that lie in a file.
class StoredValues {
 public:
  virtual ~StoredValues() = default;
  /// Reads a range of the piece's range. Returns a new flat CPU tensor. Throws CheckpointError.
  virtual at::Tensor read(ElementRange range) const = 0;
};

/// The part of a named tensor that one rank holds: all of it, or a part that other ranks complete.
struct Piece {
  std::string name;
  at::Tensor values;                ///< in the whole's shape if the piece is whole, else flat [range.size()]
  std::vector<std::int64_t> shape;  ///< shape of the whole
  ElementRange range;               ///< range of the whole's elements
  bool of_model = false;            ///< the values are those of the model's tensor of this name
  std::shared_ptr<const StoredValues> stored = {};  ///< in place of `values`, which is undefined then
  bool may_differ = false;                          ///< a rank may have values of its own under this name

  bool is_whole() const;
  /// Returns the values, shaped as `values`. Reads stored values.
  at::Tensor read() const;
};

/// Returns a piece that is the whole tensor.
Piece whole_piece(std::string name, at::Tensor tensor);
std::vector<Piece> whole_pieces(const std::vector<NamedTensor>& tensors);
/// Returns the values of pieces, which share their memory, without autograd's history.
std::vector<at::Tensor> values_of(std::span<const Piece> pieces);
/// Returns a part of a contiguous tensor. The piece shares the memory, and requires a gradient if the tensor
/// does: an optimizer has no state for a frozen piece.
Piece part_of(const std::string& name, const at::Tensor& tensor, ElementRange range);
/// Returns a piece of a tensor that has an element for each element of the piece's: an optimizer's state.
Piece piece_beside(const Piece& piece, const std::string& prefix, const at::Tensor& values);

/// Fills each target from the pieces of its name in `sources`, which may have any ranges. Of stored values it
/// reads only what the targets need, at most 4 MiB at a time. Throws StateError with a target that the
/// sources do not cover, or that has another whole shape there.
void fill_pieces(std::span<const Piece> targets, std::span<const Piece> sources);

/// Division of tensors of one dtype and device among ranks: flat memory with the tensors one after the other,
/// cut into a shard of equal size for each rank.
struct ShardPlan {
  std::int64_t share = 0;                         ///< elements; the memory has one share for each rank
  std::vector<std::int64_t> offsets;              ///< where each tensor begins; elements
  std::vector<std::vector<ElementRange>> shards;  ///< `shards[r][i]`: range of tensor i on rank r, or empty
};

/// Plans the shards for tensors of `sizes` elements each, on at least one rank. Cuts tensors between chunks
/// of norms (`kNormChunk`). A chunk is also a multiple of every vector register's width, so elementwise
/// kernels treat every element as they would in the whole tensor: an update has the same bits on any rank.
/// A share is a multiple of `multiple` elements, itself a multiple of `kNormChunk`; 0: of `kNormChunk`. Pure.
ShardPlan plan_shards(std::span<const std::int64_t> sizes, int ranks, std::int64_t multiple = 0);

}  // namespace cxtrain
