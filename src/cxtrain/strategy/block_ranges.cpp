#include "cxtrain/strategy/block_ranges.h"

#include <algorithm>
#include <limits>

namespace cxtrain {

/// By dynamic programming: `least[k][n]` is the cost of the most expensive range when n blocks are cut into
/// k.
std::vector<BlockRange> cut_by_cost(std::span<const double> costs, std::size_t parts) {
  const std::size_t blocks = costs.size();
  std::vector<double> until{0};  // the cost of the first n blocks
  for (const double cost : costs) until.push_back(until.back() + cost);

  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(parts + 1, std::vector<double>(blocks + 1, kNever));
  std::vector<std::vector<std::size_t>> begins(parts + 1, std::vector<std::size_t>(blocks + 1, 0));
  least[0][0] = 0;
  for (std::size_t k = 1; k <= parts; ++k) {
    for (std::size_t n = k; n <= blocks; ++n) {
      for (std::size_t begin = k - 1; begin < n; ++begin) {
        const double most = std::max(least[k - 1][begin], until[n] - until[begin]);
        if (most >= least[k][n]) continue;
        least[k][n] = most;
        begins[k][n] = begin;
      }
    }
  }
  std::vector<BlockRange> ranges(parts);
  std::size_t end = blocks;
  for (std::size_t k = parts; k > 0; --k) {
    ranges[k - 1] = {begins[k][end], end};
    end = begins[k][end];
  }
  return ranges;
}

std::vector<BlockRange> cut_by_cost(const Blocks& blocks, std::size_t parts) {
  std::vector<double> costs;
  for (std::size_t block = 0; block < blocks.size(); ++block) costs.push_back(blocks.cost_of(block));
  return cut_by_cost(costs, parts);
}

std::vector<BlockRange> cut_by_sizes(std::span<const std::int64_t> sizes) {
  std::vector<BlockRange> ranges;
  std::size_t begin = 0;
  for (const std::int64_t size : sizes) {
    ranges.push_back({begin, begin + static_cast<std::size_t>(size)});
    begin = ranges.back().end;
  }
  return ranges;
}

}  // namespace cxtrain
