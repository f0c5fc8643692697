#include "cxtrain/scaling/measurement.h"

#include "support/catch.h"

namespace cxtrain {
namespace {

/// So many nodes of one rank. Node 1 has a link of this part of the others' speed, in both directions.
std::vector<RankProfile> nodes_with_slow_one(int nodes, double speed, double seconds = 10) {
  std::vector<RankProfile> ranks;
  for (int node = 0; node < nodes; ++node) {
    RankProfile rank{.host = "n" + std::to_string(node), .node = node};
    for (int peer = 0; peer < nodes; ++peer) {
      if (peer == node) continue;
      const double slower = node == 1 || peer == 1 ? speed : 1;
      rank.connections.push_back({peer, 1'000'000, seconds / slower});
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

TEST_CASE("the slowest node is told by its connections to all others", "[scaling]") {
  for (const int nodes : {3, 4, 16}) {
    const auto found = slowest_node(nodes_with_slow_one(nodes, 0.25));
    REQUIRE(found.has_value());
    CHECK(found->host == "n1");
    // The connections of the others to the slow node are slow, too.
    const double expected = 0.25 * (nodes - 1) / (nodes - 2 + 0.25);
    CHECK(found->speed == Catch::Approx(expected));
    CHECK(slowest_node(nodes_with_slow_one(nodes, 1))->speed == Catch::Approx(1));
  }
}

TEST_CASE("two nodes, and connections without use, do not show who is slow", "[scaling]") {
  CHECK_FALSE(slowest_node(nodes_with_slow_one(2, 0.25)).has_value());
  CHECK_FALSE(slowest_node(nodes_with_slow_one(4, 0.25, /*seconds=*/0.01)).has_value());
  CHECK_FALSE(slowest_node({}).has_value());
}

}  // namespace
}  // namespace cxtrain
