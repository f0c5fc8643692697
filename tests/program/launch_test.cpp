#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/running_program.h"
#include "support/skip.h"

namespace cxtrain::test {
namespace {

const std::string kShort = " --max_epochs 2 --accelerator cpu ";

TEST_CASE("started alone, ddp and ddp_spawn start their ranks and train as under mpirun") {
  const TempDir reference;
  REQUIRE(run_ranks(3, kShort + in(reference)).status == 0);
  const std::string strategy = GENERATE("", "--strategy ddp", "--strategy ddp_spawn");
  const TempDir dir;
  // Divided or not, the update has the same bits.
  const ProgramResult run =
      run_program(strategy + " --devices 3 --strategy.shard_optimizer true" + kShort + in(dir));
  CAPTURE(strategy, run.output);
  REQUIRE(run.status == 0);
  CHECK(run.output.find("3 ranks") != std::string::npos);
  const auto json = run_json(dir);
  CHECK(json["world_size"] == 3);
  CHECK(json["strategy"] == (strategy == "--strategy ddp_spawn" ? "ddp_spawn" : "ddp"));
  CHECK(json["parameters_sha256"] == run_json(reference)["parameters_sha256"]);
}

TEST_CASE("ranks start on a machine without a network") {
  if (run_command("unshare --net ip link set lo up").status != 0)
    return skip("the system lets this user make no network namespace, or has no iproute2");
  const std::string strategy = GENERATE("ddp", "ddp_spawn");
  const TempDir dir;
  const ProgramResult run =
      run_command("unshare --net sh -c \"ip link set lo up && exec " + kProgram +
                  " --accelerator cpu --devices 2 --max_steps 5 --strategy " + strategy + in(dir) + "\"");
  CAPTURE(strategy, run.output);
  CHECK(run.status == 0);
}

TEST_CASE("ddp_spawn under mpirun is ddp, and says so once") {
  const TempDir dir;
  const ProgramResult run = run_ranks(2, "--strategy ddp_spawn" + kShort + in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK(run_json(dir)["strategy"] == "ddp");
  CHECK(run.output.find("ddp_spawn") != std::string::npos);
}

TEST_CASE("a rank that throws ends a program that started its ranks itself, with its status and cause") {
  const std::string strategy = GENERATE("ddp", "ddp_spawn");
  const TempDir dir;
  const ProgramResult run = run_program(kFaulty + "--model.rank 1 --model.step 2 --devices 2 --strategy " +
                                        strategy + kShort + in(dir));
  CAPTURE(strategy, run.output);
  CHECK(run.status == 1);
  CHECK(run.output.find("rank 1 on ") != std::string::npos);
  CHECK(run.output.find("step 2") != std::string::npos);
}

TEST_CASE("a mistake is refused before any rank is started") {
  const ProgramResult run = run_program("--devices 3 --strategy ddp_spawn --max_epoch 3 --model nothing");
  CAPTURE(run.output);
  CHECK(run.status == 2);
  CHECK(run.output.find("max_epochs") != std::string::npos);
  CHECK(run.output.find("watches over") == std::string::npos);
}

TEST_CASE("ranks that another MPI's mpirun has started do not train each for itself") {
  const TempDir dir;
  const ProgramResult run =
      run_command("env PMI_SIZE=4 PMI_RANK=2 " + kProgram + " --max_steps 1" + kShort + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK_THAT(run.output, contains(code(MessageCode::wrong_mpi)) && contains("mpirun started 4 processes") &&
                             contains("another MPI"));
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("a signal to the program that spawned its ranks ends them all") {
  const TempDir dir;
  // The first row of metrics shows that the ranks train; the signal goes to the supervisor alone.
  const ProgramResult run = run_command(
      kProgram + " --devices 2 --strategy ddp_spawn --max_epochs -1" +
      " --accelerator cpu --log_every_n_steps 1 --limit_val_batches 0" + in(dir) + "& until [ -s " +
      dir.path() + "/cxtrain_logs/version_0/metrics.csv ]; do sleep 0.05; done; kill -TERM $!; wait $!");
  CAPTURE(run.output);
  CHECK(run.status == 75);  // its state is saved
  CHECK(processes_of(dir).empty());
}

}  // namespace
}  // namespace cxtrain::test
