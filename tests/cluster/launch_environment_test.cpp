#include "cxtrain/cluster/launch_environment.h"

#include "support/catch.h"
#include "support/environment_variable.h"

namespace cxtrain {
namespace {

TEST_CASE("a rank counts beside its world, and not where something has left it behind") {
  struct Row {
    const char *rank, *world;
  };
  for (const Row& row :
       {Row{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, Row{"PMIX_RANK", "PMIX_NAMESPACE"},
        Row{"PMI_RANK", "PMI_SIZE"}, Row{"SLURM_PROCID", "SLURM_STEP_ID"}}) {
    CAPTURE(row.rank);
    const test::EnvironmentVariable rank(row.rank, "1");
    CHECK(read_launch_environment().rank == 0);
    const test::EnvironmentVariable world(row.world, "2");
    CHECK(read_launch_environment().rank == 1);
  }
}

}  // namespace
}  // namespace cxtrain
