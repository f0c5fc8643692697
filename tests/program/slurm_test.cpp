#include "support/slurm.h"

#include "support/catch.h"
#include "support/run_files.h"
#include "support/skip.h"

/// The project's batch scripts, submitted to a real Slurm with two nodes.
namespace cxtrain::test {
namespace {

const std::string kTraining = " --accelerator cpu --data.batch_size 8 --seed 3 ";

/// The newest run of a job, which writes below runs/JOB.
nlohmann::json end_of(const TempDir& dir, const std::string& job) {
  return nlohmann::json::parse(
      std::ifstream(dir.path() + "/runs/" + job + "/cxtrain_logs/version_0/run.json"));
}

std::string output_of(const TempDir& dir, const std::string& job) {
  return slurp(dir.file("slurm-" + job + ".out"));
}

TEST_CASE("a batch job on two nodes trains as four ranks of one node do", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const std::string job = SlurmCluster::submit(dir.path(), "train.sbatch" + kTraining + "--max_epochs 3");
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  REQUIRE(state == "COMPLETED");
  const nlohmann::json end = end_of(dir, job);
  CHECK(end["status"] == "done");
  CHECK(end["world_size"] == 4);
  CHECK_THAT(output_of(dir, job), contains("4 ranks on 2 nodes, started by srun"));
  const ProgramResult same = run_ranks(4, kTraining + "--max_epochs 3" + in(dir));
  REQUIRE(same.status == 0);
  CHECK(end["global_step"] == run_json(dir)["global_step"]);
  const double loss = end["metrics"]["val_loss"], expected = run_json(dir)["metrics"]["val_loss"];
  CHECK(loss == Approx(expected).epsilon(1e-4));
}

TEST_CASE("a batch job that is told to make way is requeued, and ends with the bits of an undisturbed one",
          "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const std::string long_training = "train.sbatch" + kTraining + "--max_epochs 12";
  const std::string undisturbed = SlurmCluster::submit(dir.path(), long_training);
  REQUIRE(SlurmCluster::wait(undisturbed) == "COMPLETED");
  const nlohmann::json expected = end_of(dir, undisturbed);
  for (const std::string how : {"scancel --signal=USR1 ", "scontrol requeue "}) {
    const std::string job = SlurmCluster::submit(dir.path(), long_training);
    const std::string run = dir.path() + "/runs/" + job;
    REQUIRE(becomes_true([&] { return newest_checkpoint(run).step > 0; }));
    REQUIRE(SlurmCluster::run(dir.path(), how + job).status == 0);
    const std::string state = SlurmCluster::wait(job);
    CAPTURE(how, output_of(dir, job));
    REQUIRE(state == "COMPLETED");
    CHECK(SlurmCluster::restarts(job) == 1);
    CHECK_THAT(output_of(dir, job), contains("resuming from "));
    const nlohmann::json end = end_of(dir, job);
    CHECK(end["parameters_sha256"] == expected["parameters_sha256"]);
    CHECK(end["metrics"] == expected["metrics"]);
  }
}

}  // namespace
}  // namespace cxtrain::test
