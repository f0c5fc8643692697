#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/strategy/blocks.h"

namespace cxtrain {

/// Blocks [begin, end) of a model.
struct BlockRange {
  std::size_t begin = 0, end = 0;

  bool operator==(const BlockRange&) const = default;
};

/// Cuts blocks of these costs into `parts` ranges of at least one block, so that the most expensive range is
/// as cheap as possible. There are at least as many blocks as parts. Pure.
std::vector<BlockRange> cut_by_cost(std::span<const double> costs, std::size_t parts);
/// Cuts the blocks of a model in this way, by `Blocks::cost_of`.
std::vector<BlockRange> cut_by_cost(const Blocks& blocks, std::size_t parts);

/// Cuts blocks into ranges of these sizes, which add up to the number of blocks.
std::vector<BlockRange> cut_by_sizes(std::span<const std::int64_t> sizes);

}  // namespace cxtrain
