#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// A row of parameters of one dtype and device that lie one after the other in memory. Ranks divide a row: it
/// is cut into a shard of equal size for each rank.
struct DividedRow {
  std::vector<std::size_t> parameters;  ///< indices, in the order of the memory
  ShardPlan plan;                       ///< of the row; a share is a multiple of a page

  std::int64_t elements() const { return plan.share * static_cast<std::int64_t>(plan.shards.size()); }
};

/// Returns whether ranks can divide the parameter: it is in row-major order. It may be frozen.
bool can_be_divided(const at::Tensor& parameter);

/// Puts the parameters that can be divided into rows, for at least one rank. Trained and frozen parameters
/// have rows of their own, trained ones first: a row of frozen parameters has no gradients. `row_bytes` 0:
/// one row for each dtype and device, in the order of the parameters. Else the last parameters come first, as
/// backward reaches them, and a row ends with the parameter that reaches `row_bytes`, or a 64th of all
/// parameters: each row costs mappings of memory, whose number is limited. Pure: equal arguments give equal
/// rows on all ranks.
std::vector<DividedRow> divided_rows(const std::vector<NamedTensor>& parameters, int ranks,
                                     std::int64_t row_bytes);

}  // namespace cxtrain
