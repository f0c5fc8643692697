#include "cxtrain/trainer/generators.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>

#include <set>

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("no two devices of a job have the same seed") {
  struct Row {
    int ranks;
    std::size_t devices;
  };
  const Row row = GENERATE(Row{1, 1}, Row{1, 8}, Row{8, 1}, Row{4, 2}, Row{3, 5});
  CAPTURE(row.ranks, row.devices);
  std::set<std::uint64_t> all;
  for (int rank = 0; rank < row.ranks; ++rank) {
    const std::vector<std::uint64_t> seeds = device_seeds(42, rank, row.ranks, row.devices);
    REQUIRE(seeds.size() == row.devices);
    CHECK(seeds[0] == 42 + static_cast<std::uint64_t>(rank));
    all.insert(seeds.begin(), seeds.end());
  }
  CHECK(all.size() == static_cast<std::size_t>(row.ranks) * row.devices);
}

TEST_CASE("another seed is another one on every device") {
  const auto one = device_seeds(1, 0, 1, 4), other = device_seeds(1000, 0, 1, 4);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] != other[i]);
}

TEST_CASE("generators go on from where they were saved") {
  Generators generators(std::vector<at::Device>{at::kCPU});
  generators.seed_apart(7, 0, 1);
  StateDict state;
  generators.save(state);
  const at::Tensor first = at::rand({8});
  generators.load(state);
  CHECK(at::equal(at::rand({8}), first));
  generators.seed_apart(7, 1, 2);
  CHECK_FALSE(at::equal(at::rand({8}), first));
}

}  // namespace
}  // namespace cxtrain
