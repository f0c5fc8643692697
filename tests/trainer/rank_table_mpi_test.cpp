#include "cxtrain/trainer/rank_table.h"

#include "cxtrain/base/number_ranges.h"
#include "cxtrain/device/core_share.h"
#include "support/catch.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

TEST_CASE("the root learns where the ranks run") {
  World& world = test_world();
  Plan plan;
  for (int rank = 0; rank < world.size(); ++rank) {
    RankPlan& planned = plan.ranks.emplace_back();
    planned.rank = rank;
    planned.gpus = {rank, 7};
    planned.uuids = {"GPU-" + std::to_string(rank), "GPU-x"};
  }
  const std::string table = gather_rank_table(world, plan);
  if (!world.is_root()) {
    CHECK(table.empty());
    return;
  }
  CHECK_THAT(table, test::contains(world.facts().hostname));
  CHECK_THAT(table, test::contains(format_ranges(cores_of_mask())));
  const std::string last = std::to_string(world.size() - 1);
  CHECK_THAT(table, test::contains("GPU-" + last + ",GPU-x"));
  CHECK_THAT(table, test::contains("  " + last + ",7  "));
}

}  // namespace
}  // namespace cxtrain
