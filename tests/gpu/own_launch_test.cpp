#include <thread>

#include "gpu/gpu_program.h"
#include "gpu/gpu_support.h"
#include "support/run_files.h"
#include "support/run_program.h"

namespace cxtrain {
namespace {

TEST_CASE("--devices 2 starts a rank for each GPU, and leaves both the machine's cores", "[gpu]") {
  if (!test::has_mpirun() || !test::has_two_gpus()) return;
  const test::TempDir dir;
  const test::ProgramResult run =
      test::run_command(test::program() + " fit --model digits --accelerator gpu --devices 2 --strategy ddp" +
                        " --max_steps 20 --data.num_workers 1" + test::in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK(test::run_json(dir).at("world_size") == 2);
  CHECK_THAT(run.output, test::contains("NCCL 2."));
  // Such a machine has enough, unless ranks are bound.
  if (std::thread::hardware_concurrency() >= 8)
    CHECK_THAT(run.output, !test::contains("steps will wait for a core"));
}

}  // namespace
}  // namespace cxtrain
