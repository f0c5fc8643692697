#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/tensor/parameter_shape.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// How ranks divide the elements of all parameters among themselves: one piece of memory with the parameters
/// one after the other, each on a cache line of its own, cut into a shard for each rank.
struct ShardPlan {
  std::vector<std::size_t> offsets;  ///< where each parameter begins; bytes
  std::vector<std::size_t> ends;     ///< where each rank's shard ends; bytes, the last is the whole
  std::vector<std::vector<ElementRange>> shards;  ///< of rank r: its range of each parameter, perhaps empty
};

/// Shards of about the same number of bytes, in the order of the ranks. A divisible parameter is cut where vector
/// and scalar code in elementwise kernels treat every element as they would in the whole, so that who updates
/// an element does not change a bit of it. At least one rank. Pure.
ShardPlan plan_shards(std::span<const ParameterShape> parameters, int ranks);

}  // namespace cxtrain
