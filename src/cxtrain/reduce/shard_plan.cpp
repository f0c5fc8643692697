#include "cxtrain/reduce/shard_plan.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

#include "cxtrain/base/align.h"

namespace cxtrain {
namespace {

/// Elements of a block after which a parameter may be cut: a multiple of every vector register's width, and
/// of the blocks that ATen's fused kernels deal out to threads (64 bytes).
constexpr std::size_t kBlock = 64;

struct Extent {
  std::size_t begin, count, element;  ///< bytes, elements, bytes per element
  bool divisible;
};

/// The place nearest to `target` where a shard may end.
std::size_t cut_near(std::size_t target, std::span<const Extent> extents) {
  const auto after = std::upper_bound(extents.begin(), extents.end(), target,
                                      [](std::size_t t, const Extent& e) { return t < e.begin; });
  if (after == extents.begin()) return 0;
  const Extent& extent = after[-1];
  const std::size_t end = round_up(extent.count * extent.element, kCacheLine);
  if (!extent.divisible) return extent.begin + (target - extent.begin < end / 2 ? 0 : end);
  const std::size_t block = kBlock * extent.element;
  const std::size_t within = (target - extent.begin + block / 2) / block * block;
  return extent.begin + std::min(within, end);
}

ElementRange overlap(const Extent& extent, std::size_t begin, std::size_t end) {
  const auto element_at = [&](std::size_t byte) {
    const std::size_t within = byte > extent.begin ? (byte - extent.begin) / extent.element : 0;
    return static_cast<std::int64_t>(std::min(within, extent.count));
  };
  return {element_at(begin), element_at(end)};
}

}  // namespace

ShardPlan plan_shards(std::span<const ParameterShape> parameters, int ranks) {
  ShardPlan plan;
  std::vector<Extent> extents;
  std::size_t bytes = 0;
  for (const ParameterShape& parameter : parameters) {
    const Extent extent{bytes, static_cast<std::size_t>(parameter.numel), c10::elementSize(parameter.dtype), parameter.divisible};
    plan.offsets.push_back(bytes);
    bytes += round_up(extent.count * extent.element, kCacheLine);
    extents.push_back(extent);
  }
  const auto shares = static_cast<std::size_t>(ranks);
  std::size_t begin = 0;
  for (std::size_t rank = 0; rank < shares; ++rank) {
    const std::size_t end = rank + 1 == shares ? bytes : cut_near(bytes * (rank + 1) / shares, extents);
    std::vector<ElementRange>& shard = plan.shards.emplace_back();
    for (const Extent& extent : extents) shard.push_back(overlap(extent, begin, end));
    plan.ends.push_back(end);
    begin = end;
  }
  return plan;
}

}  // namespace cxtrain
