#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/tensor/named_tensor.h"

namespace cxtrain {

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

}  // namespace cxtrain
