#include <string>

#include "gpu/gpu_program.h"
#include "gpu/gpu_support.h"
#include "support/run_files.h"
#include "support/run_program.h"

namespace cxtrain {
namespace {

/// Trains a model that has a label out of range on its last rank at step 5: the run ends with a failure's
/// status, soon, and says which rank it was, and where.
void check_way_out(const std::string& launch, int ranks) {
  const test::TempDir dir;
  const std::string last = std::to_string(ranks - 1);
  const test::ProgramResult run =
      test::run_command(launch + test::program() + " fit --plugin " + test::checks_plugin("wrong_label") +
                            " --model wrong_label --model.rank " + last + " --accelerator gpu --strategy " +
                            (ranks == 1 ? "single" : "ddp") + " --timeout_seconds 60" + test::in(dir),
                        90);
  CAPTURE(launch, run.output, run.seconds);
  CHECK(run.status == 1);
  CHECK_THAT(run.output, test::contains("error: rank " + last + " on "));
  CHECK_THAT(run.output, test::contains(", step "));
  CHECK_THAT(run.output, !test::contains("terminate called"));
  CHECK(run.seconds < 45);  // by itself, not by the watchdog
  CHECK(test::run_json(dir).at("status") == "failed");
}

TEST_CASE("a label out of range ends one rank on a GPU with a message and a status", "[gpu]") {
  check_way_out("", 1);
}

TEST_CASE("a label out of range ends two ranks on one GPU with a message and a status", "[gpu]") {
  if (!test::has_mpirun()) return;
  const test::VisibleGpus one(1);
  check_way_out(test::mpirun() + " -np 2 --oversubscribe --bind-to none ", 2);
}

TEST_CASE("a label out of range ends two ranks with a GPU each with a message and a status", "[gpu]") {
  if (!test::has_mpirun() || !test::has_two_gpus()) return;
  check_way_out(test::mpirun() + " -np 2 --oversubscribe --bind-to none ", 2);
}

}  // namespace
}  // namespace cxtrain
