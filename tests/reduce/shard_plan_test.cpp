#include "cxtrain/reduce/shard_plan.h"

#include <c10/core/ScalarType.h>

#include <random>

#include "support/catch.h"

namespace cxtrain {
namespace {

std::vector<ParameterShape> some_parameters(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<ParameterShape> shapes;
  const std::size_t count = random() % 12 + 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto numel = static_cast<std::int64_t>(random() % (i % 3 == 0 ? 300000 : 700));
    shapes.push_back({numel, random() % 4 == 0 ? at::kDouble : at::kFloat, at::kCPU});
  }
  return shapes;
}

TEST_CASE("every element is in one shard, cut at whole blocks, in the order of the ranks") {
  const auto seed = static_cast<unsigned>(GENERATE(range(0, 40)));
  const int ranks = GENERATE(1, 2, 3, 4, 7, 64);
  const std::vector<ParameterShape> shapes = some_parameters(seed);
  const ShardPlan plan = plan_shards(shapes, ranks);
  CAPTURE(seed, ranks);
  REQUIRE(plan.shards.size() == static_cast<std::size_t>(ranks));
  REQUIRE(plan.offsets.size() == shapes.size());
  bool all_hold = true;
  for (std::size_t p = 0; p < shapes.size(); ++p) {
    std::int64_t next = 0;
    for (const auto& shard : plan.shards) {
      all_hold &= shard[p].begin == next && shard[p].end >= next;
      all_hold &= shard[p].begin % 64 == 0 || shard[p].size() == 0;
      next = shard[p].end;
    }
    all_hold &= next == shapes[p].numel;
  }
  CHECK(all_hold);
}

TEST_CASE("a shard's elements lie between its neighbours' ends, and parameters apart from each other") {
  const auto seed = static_cast<unsigned>(GENERATE(range(0, 40)));
  const int ranks = GENERATE(1, 2, 3, 5);
  const std::vector<ParameterShape> shapes = some_parameters(seed);
  const ShardPlan plan = plan_shards(shapes, ranks);
  CAPTURE(seed, ranks);
  std::size_t end = 0;
  bool all_hold = true;
  for (std::size_t p = 0; p < shapes.size(); ++p) {
    const std::size_t element = c10::elementSize(shapes[p].dtype);
    all_hold &= plan.offsets[p] % 64 == 0 && plan.offsets[p] >= end;
    end = plan.offsets[p] + static_cast<std::size_t>(shapes[p].numel) * element;
    for (std::size_t r = 0; r < plan.shards.size(); ++r) {
      const ElementRange range = plan.shards[r][p];
      if (range.size() == 0) continue;
      const std::size_t first = plan.offsets[p] + static_cast<std::size_t>(range.begin) * element;
      const std::size_t last = plan.offsets[p] + static_cast<std::size_t>(range.end) * element;
      all_hold &= first >= (r == 0 ? 0 : plan.ends[r - 1]) && last <= plan.ends[r];
    }
  }
  CHECK(all_hold);
  CHECK(plan.ends.back() >= end);
}

TEST_CASE("shards are of about the same size, whatever the parameters' sizes") {
  const std::vector<ParameterShape> mlp{{784 * 512, at::kFloat, at::kCPU}, {512, at::kFloat, at::kCPU},
                                        {512 * 512, at::kFloat, at::kCPU}, {512, at::kFloat, at::kCPU},
                                        {5120, at::kFloat, at::kCPU},      {10, at::kFloat, at::kCPU}};
  for (const int ranks : {2, 3, 4, 8}) {
    const ShardPlan plan = plan_shards(mlp, ranks);
    std::size_t begin = 0;
    for (const std::size_t end : plan.ends) {
      const double share = static_cast<double>(end - begin) / static_cast<double>(plan.ends.back());
      CHECK(share == Catch::Approx(1.0 / ranks).margin(0.001));
      begin = end;
    }
  }
}

}  // namespace
}  // namespace cxtrain
