#include <filesystem>
#include <string>

#include "support/catch.h"
#include "support/run_files.h"
#include "support/skip.h"
#include "support/slurm.h"

/// Whatever ends a job of the project's batch script before it is done, it is requeued, and its training goes
/// on.
namespace cxtrain::test {
namespace {

const std::string kTraining =
    " --accelerator cpu --data.batch_size 8 --seed 3 --max_epochs 40 "
    "--checkpoint.every_n_train_steps 20";

/// The same in half a minute at least.
const std::string kSlowly =
    std::string(" --plugin ") + CXTRAIN_TEST_PLUGIN_DIR + "/slow.so --callbacks.slow.ms 18";

/// What a job of this training has left, which writes below runs/JOB.
struct Outcome {
  std::string parameters;
  nlohmann::json metrics;
  std::string rows;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const TempDir& dir, const std::string& job) {
  CHECK_FALSE(std::filesystem::exists(run_of(dir, job) + "../version_1"));
  const nlohmann::json end = end_of(dir, job);
  return {end["parameters_sha256"], end["metrics"], slurp(run_of(dir, job) + "metrics.csv")};
}

std::string submit(const TempDir& dir, const std::string& of_sbatch = {}, const std::string& of_fit = {}) {
  return SlurmCluster::submit(dir.path(), "train.sbatch" + kTraining + of_fit, of_sbatch);
}

/// What the training comes to where nobody disturbs it; from the first case that asks.
const Outcome& undisturbed() {
  static const Outcome found = [] {
    const TempDir dir;
    const std::string job = submit(dir);
    REQUIRE(SlurmCluster::wait(job) == "COMPLETED");
    return outcome_of(dir, job);
  }();
  return found;
}

/// Until the job runs and has saved more than `step`; false where it ends before.
bool comes_further(const TempDir& dir, const std::string& job, int step) {
  return becomes_true([&] {
    return SlurmCluster::hurry(job) == "RUNNING" && newest_checkpoint(run_of(dir, job)).step > step;
  });
}

TEST_CASE("a job that makes way ten times ends with the bits of an undisturbed one", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const Outcome& expected = undisturbed();
  const std::string job = submit(dir);
  int step = 0;
  for (int time = 0; time < 10; ++time) {
    CAPTURE(time, step, output_of(dir, job));
    REQUIRE(comes_further(dir, job, step));
    const std::string order = time % 3 == 0   ? "scancel --signal=USR1 " + job
                              : time % 3 == 1 ? "scontrol requeue " + job
                                              : "sbatch --partition=urgent --nodes=2 --exclusive --wrap true";
    REQUIRE(SlurmCluster::run(dir.path(), order).status == 0);
    REQUIRE(becomes_true([&] { return SlurmCluster::restarts(job) > time; }));
    step = newest_checkpoint(run_of(dir, job)).step;
  }
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  REQUIRE(state == "COMPLETED");
  CHECK(SlurmCluster::restarts(job) == 10);
  CHECK(outcome_of(dir, job) == expected);
}

TEST_CASE(
    "a job that loses a node is requeued when the node is back, and ends with the bits of an undisturbed one",
    "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const Outcome& expected = undisturbed();
  const std::string job = submit(dir, "", kSlowly);
  REQUIRE(comes_further(dir, job, 0));
  const auto begin = std::chrono::steady_clock::now();
  SlurmCluster::lose("n2");
  REQUIRE(becomes_true([&] { return SlurmCluster::state(job) != "RUNNING"; }));
  std::printf("slurm: a job whose node is lost ends after %.1f s; Slurm is told to wait for 10\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  SlurmCluster::bring_back("n2");
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  REQUIRE(state == "COMPLETED");
  CHECK(SlurmCluster::restarts(job) == 1);
  CHECK_THAT(output_of(dir, job), contains("resuming from "));
  CHECK(outcome_of(dir, job) == expected);
}

TEST_CASE("a job whose time is over saves before, is requeued, and ends with the bits of an undisturbed one",
          "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const Outcome& expected = undisturbed();
  // Slurm looks at its clock every 30 s, and a minute is the least that it gives: the signal comes in the
  // first half of it. With steps of 20 ms the training is not done by then.
  const std::string job = submit(dir, "--time=1 --signal=USR1@45 ", kSlowly);
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  REQUIRE(state == "COMPLETED");
  CHECK(SlurmCluster::restarts(job) >= 1);
  CHECK_THAT(output_of(dir, job), contains("stopped by SIGUSR1"));
  CHECK(outcome_of(dir, job) == expected);
}

TEST_CASE("a job that is cancelled leaves a whole checkpoint of its last step", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const std::string job = submit(dir);
  REQUIRE(comes_further(dir, job, 0));
  REQUIRE(SlurmCluster::run(dir.path(), "scancel " + job).status == 0);
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  CHECK(state == "CANCELLED");
  const auto stopped = [&] {
    const std::string text = slurp(run_of(dir, job) + "run.json");
    return text.empty() ? nlohmann::json{{"status", "running"}} : nlohmann::json::parse(text);
  };
  REQUIRE(becomes_true([&] { return stopped()["status"] == "stopped"; }));
  const auto newest = newest_checkpoint(run_of(dir, job));
  CHECK(newest.step == stopped()["global_step"]);
  const ProgramResult verified =
      run_command(std::string(CXTRAIN_BIN_DIR) + "/cxtrain_mpi checkpoint verify " + newest.path);
  CAPTURE(verified.output);
  CHECK(verified.status == 0);
}

}  // namespace
}  // namespace cxtrain::test
