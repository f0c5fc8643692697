#include "cxtrain/reduce/buckets.h"

#include <numeric>
#include <set>

#include "support/catch.h"

namespace cxtrain {
namespace {

std::vector<BucketPlan> plan(const std::vector<std::int64_t>& sizes, std::int64_t first, std::int64_t other) {
  std::vector<ParameterShape> shapes;
  for (const std::int64_t size : sizes) shapes.push_back({size, at::kFloat, at::kCPU});
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return plan_buckets(shapes, order, first, other);
}

TEST_CASE("every parameter is in one bucket, at an aligned offset, apart from its neighbours") {
  const std::int64_t limit = GENERATE(1, 100, 4096, 1 << 20, 0, -1);
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < 50; ++i) sizes.push_back((i * 37) % 611 + 1);
  std::set<std::size_t> seen;
  for (const BucketPlan& bucket : plan(sizes, limit, limit)) {
    std::int64_t end = 0;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      CHECK(seen.insert(bucket.parameters[i]).second);
      CHECK(bucket.offsets[i] >= end);
      CHECK(bucket.offsets[i] * 4 % 64 == 0);
      end = bucket.offsets[i] + sizes[bucket.parameters[i]];
    }
    CHECK(bucket.numel >= end);
  }
  CHECK(seen.size() == sizes.size());
}

TEST_CASE("the first bucket closes early, the others at their own limit; no limit makes one") {
  const std::vector<std::int64_t> sizes(64, 256);  // 1 KiB each
  const auto buckets = plan(sizes, 4 << 10, 16 << 10);
  CHECK(buckets.front().parameters.size() == 4);
  CHECK(buckets[1].parameters.size() == 16);
  CHECK(buckets.front().parameters.front() == 63);
  CHECK(plan(sizes, 0, 0).size() == 1);
}

TEST_CASE("a parameter larger than the limit has a bucket of its own") {
  const auto buckets = plan({10, 100000, 10}, 1024, 1024);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].parameters == std::vector<std::size_t>{2, 1});
}

}  // namespace
}  // namespace cxtrain
