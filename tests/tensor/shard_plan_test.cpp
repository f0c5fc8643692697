#include "cxtrain/tensor/piece.h"

#include <random>

#include "cxtrain/tensor/norms.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

std::vector<std::int64_t> some_sizes(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> sizes;
  const std::size_t count = random() % 12 + 1;
  for (std::size_t i = 0; i < count; ++i)
    sizes.push_back(static_cast<std::int64_t>(random() % (i % 3 == 0 ? 300000 : 700)));
  return sizes;
}

TEST_CASE("every element is in one share, where it lies, cut at whole chunks, in the order of the ranks") {
  const auto seed = static_cast<unsigned>(GENERATE(range(0, 40)));
  const int ranks = GENERATE(1, 2, 3, 4, 7, 64);
  const std::vector<std::int64_t> sizes = some_sizes(seed);
  const ShardPlan plan = plan_shards(sizes, ranks);
  CAPTURE(seed, ranks);
  REQUIRE(plan.shards.size() == static_cast<std::size_t>(ranks));
  REQUIRE(plan.offsets.size() == sizes.size());
  CHECK(plan.share % kNormChunk == 0);
  bool all_hold = true;
  std::int64_t end = 0;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    all_hold &= plan.offsets[p] % kNormChunk == 0 && plan.offsets[p] >= end;
    end = plan.offsets[p] + sizes[p];
    std::int64_t next = 0;
    for (std::size_t rank = 0; rank < plan.shards.size(); ++rank) {
      const ElementRange range = plan.shards[rank][p];
      if (range.size() == 0) continue;
      all_hold &= range.begin == next && range.begin % kNormChunk == 0;
      const std::int64_t share = static_cast<std::int64_t>(rank) * plan.share;
      all_hold &= plan.offsets[p] + range.begin >= share && plan.offsets[p] + range.end <= share + plan.share;
      next = range.end;
    }
    all_hold &= next == sizes[p];
  }
  CHECK(all_hold);
  CHECK(plan.share * ranks >= end);
}

TEST_CASE("little of the memory is left over") {
  const std::vector<std::int64_t> mlp{784 * 512, 512, 512 * 512, 512, 5120, 10};
  std::int64_t total = 0;
  for (const std::int64_t size : mlp) total += size;
  for (const int ranks : {2, 3, 4, 8}) {
    const double used =
        static_cast<double>(total) / static_cast<double>(plan_shards(mlp, ranks).share * ranks);
    CHECK(used > 0.995);
  }
}

}  // namespace
}  // namespace cxtrain
