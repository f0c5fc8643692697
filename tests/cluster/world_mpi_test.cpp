#include "cxtrain/cluster/world.h"

#include "support/catch.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

TEST_CASE("texts are gathered from the ranks of a node and from the nodes' first ranks") {
  World& world = test_world();
  const WorldFacts& facts = world.facts();
  const std::string own =
      "rank " + std::to_string(world.rank()) + std::string(static_cast<std::size_t>(3 * world.rank()), '.');
  const std::vector<std::string> node = world.gather_node(own);
  REQUIRE(static_cast<int>(node.size()) == facts.local_size);
  CHECK(node[static_cast<std::size_t>(facts.local_rank)] == own);
  const std::vector<std::string> nodes = world.gather_nodes(own);
  REQUIRE(static_cast<int>(nodes.size()) == facts.num_nodes);
  CHECK(nodes[0] == "rank 0");
  if (facts.local_rank == 0) CHECK(nodes[static_cast<std::size_t>(facts.node)] == own);
}

TEST_CASE("the root alone gets what is gathered there") {
  World& world = test_world();
  const std::string own(static_cast<std::size_t>(2 * world.rank()), 'x');  // none of rank 0
  const std::vector<std::string> all = world.gather_root(own);
  REQUIRE(static_cast<int>(all.size()) == (world.is_root() ? world.size() : 0));
  for (std::size_t rank = 0; rank < all.size(); ++rank) CHECK(all[rank] == std::string(2 * rank, 'x'));
}

TEST_CASE("ranks find out whether all have the same text") {
  World& world = test_world();
  CHECK(same_on_all_ranks(world, ""));
  CHECK(same_on_all_ranks(world, "the same"));
  for (int other = 0; other < world.size(); ++other) {
    const bool same = same_on_all_ranks(world, world.rank() == other ? "another" : "the same");
    CHECK(same == (world.size() == 1));
  }
}

TEST_CASE("what one rank is refused for all are, and nobody where nobody is") {
  World& world = test_world();
  CHECK_NOTHROW(run_agreed(world, [] {}));
  for (int bad = 0; bad < world.size(); ++bad) {
    std::string message;
    try {
      run_agreed(world, [&] {
        if (world.rank() == bad) throw ConfigError("x", "is wrong", "");
      });
    } catch (const AgreedError& error) {
      message = error.what();
      CHECK(error.code() == ExitCode::refused);
    }
    CHECK_THAT(message, test::contains("is wrong"));
    if (world.size() > 1) CHECK_THAT(message, test::contains("rank " + std::to_string(bad)));
  }
}

}  // namespace
}  // namespace cxtrain
