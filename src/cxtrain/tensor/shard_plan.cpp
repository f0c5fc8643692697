#include "cxtrain/tensor/shard_plan.h"

#include <algorithm>

#include "cxtrain/base/align.h"
#include "cxtrain/tensor/norms.h"

namespace cxtrain {

ShardPlan plan_shards(std::span<const std::int64_t> sizes, int ranks) {
  ShardPlan plan;
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    plan.offsets.push_back(total);
    total += round_up(size, kNormChunk);
  }
  plan.share = round_up(divide_up<std::int64_t>(total, ranks), kNormChunk);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t begin = rank * plan.share, end = begin + plan.share;
    std::vector<ElementRange>& shard = plan.shards.emplace_back();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto within = [&](std::int64_t place) {
        return std::clamp<std::int64_t>(place - plan.offsets[i], 0, sizes[i]);
      };
      shard.push_back({within(begin), within(end)});
    }
  }
  return plan;
}

}  // namespace cxtrain
