#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// How ranks divide the elements of tensors of one kind among themselves: flat memory with the tensors one
/// after the other, cut into a share of equal size for each rank.
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
