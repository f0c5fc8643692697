#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/run_files.h"
#include "support/skip.h"
#include "support/slurm.h"
#include "support/times.h"

/// Whatever ends a job of the project's batch script before it is done, it is requeued, and its training goes
/// on.
namespace cxtrain::test {
namespace {

const std::string kRequeuedTraining =
    " --accelerator cpu --data.batch_size 8 --seed 3 --max_epochs 40 "
    "--checkpoint.every_n_train_steps 20";

/// What makes that training too slow to be done before somebody `hurries`.
std::string slowly(const TempDir& dir) {
  return std::string(" --plugin ") + CXTRAIN_TEST_PLUGIN_DIR + "/slow.so --callbacks.slow.ms 40 " +
         "--callbacks.slow.until " + dir.file("hurry");
}
void hurry(const TempDir& dir) { dir.write("hurry", ""); }

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
  return SlurmCluster::submit(dir.path(), "train.sbatch" + kRequeuedTraining + of_fit, of_sbatch);
}

/// Returns the outcome of a training that nobody disturbs. The first case that needs an outcome trains.
const Outcome& undisturbed(const std::string& strategy = "") {
  static std::map<std::string, Outcome> found;
  if (!found.contains(strategy)) {
    const TempDir dir;
    const std::string job = submit(dir, "", strategy);
    const std::string state = SlurmCluster::wait(job);
    CAPTURE(strategy, output_of(dir, job));
    REQUIRE(state == "COMPLETED");
    found[strategy] = outcome_of(dir, job);
  }
  return found[strategy];
}

/// Waits until the job has begun to train more than `before` times, and has saved a step since; returns how
/// often it has begun.
int comes_further(const TempDir& dir, const std::string& job, int before = 0) {
  int begun = 0;
  const auto trains = [&] {
    begun = static_cast<int>(times(output_of(dir, job), "writing to "));
    return SlurmCluster::hurry(job) == "RUNNING" && begun > before;
  };
  if (!SlurmCluster::comes_to(trains))
    FAIL("does not train: " << SlurmCluster::about(job) << output_of(dir, job));
  const int step = newest_checkpoint(run_of(dir, job)).step;
  const auto saves = [&] { return trains() && newest_checkpoint(run_of(dir, job)).step > step; };
  if (!SlurmCluster::comes_to(saves))
    FAIL("saves nothing: " << SlurmCluster::about(job) << output_of(dir, job));
  return begun;
}

TEST_CASE("a job that is preempted in different ways ends with the bits of an undisturbed one", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const std::string urgent = "sbatch --partition=urgent --nodes=2 --exclusive --wrap true";
  const std::string signal = "scancel --signal=USR1 ", requeue = "scontrol requeue ";
  struct Row {
    std::string strategy;
    std::vector<std::string> orders;
  };
  const std::vector<Row> rows{
      {"", {signal, requeue, urgent, signal, requeue, urgent}},
      {" --strategy zero --strategy.parameters all", {urgent, signal}},
      {" --strategy pipeline --strategy.stages 2 --accumulate_grad_batches 2", {requeue}}};
  const Row& row = rows[GENERATE(0U, 1U, 2U)];
  const TempDir dir;
  const Outcome& expected = undisturbed(row.strategy);
  const std::string job = submit(dir, "", row.strategy + slowly(dir));
  int begun = 0;
  for (const std::string& order : row.orders) {
    begun = comes_further(dir, job, begun);
    const int restarts = SlurmCluster::restarts(job);
    CAPTURE(row.strategy, order);
    REQUIRE(SlurmCluster::run(dir.path(), order == urgent ? order : order + job).status == 0);
    if (!SlurmCluster::comes_to([&] { return SlurmCluster::restarts(job) > restarts; }))
      FAIL("not requeued: " << SlurmCluster::about(job) << output_of(dir, job));
  }
  hurry(dir);
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(SlurmCluster::about(job), output_of(dir, job));
  REQUIRE(state == "COMPLETED");
  CHECK(SlurmCluster::restarts(job) >= static_cast<int>(row.orders.size()));
  CHECK(outcome_of(dir, job) == expected);
}

TEST_CASE(
    "a job that loses a node is requeued when the node is back, and ends with the bits of an undisturbed one",
    "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const Outcome& expected = undisturbed();
  const std::string job = submit(dir, "", slowly(dir));
  comes_further(dir, job);
  const auto begin = std::chrono::steady_clock::now();
  SlurmCluster::lose("n2");
  REQUIRE(SlurmCluster::comes_to([&] { return SlurmCluster::state(job) != "RUNNING"; }));
  std::printf("slurm: a job whose node is lost ends after %.1f s; Slurm is told to wait for 10\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  hurry(dir);
  SlurmCluster::bring_back("n2");
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(SlurmCluster::about(job), output_of(dir, job));
  REQUIRE(state == "COMPLETED");
  CHECK(SlurmCluster::restarts(job) >=
        1);  // Slurm has it requeued, and where the ranks could save the script, too
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
  // first half of it.
  const std::string job = submit(dir, "--time=1 --signal=USR1@45 ", slowly(dir));
  const bool stopped =
      becomes_true([&] { return output_of(dir, job).find("stopped by SIGUSR1") != std::string::npos; }, 120);
  hurry(dir);
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(SlurmCluster::about(job), output_of(dir, job));
  CHECK(stopped);
  REQUIRE(state == "COMPLETED");
  CHECK(SlurmCluster::restarts(job) >= 1);  // the next minute may be over, too
  CHECK(outcome_of(dir, job) == expected);
}

TEST_CASE("a job that is cancelled leaves a whole checkpoint of its last step", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const std::string job = submit(dir, "", slowly(dir));
  comes_further(dir, job);
  REQUIRE(SlurmCluster::run(dir.path(), "scancel " + job).status == 0);
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  CHECK(state == "CANCELLED");
  const auto stopped = [&] {
    const std::string text = slurp(run_of(dir, job) + "run.json");
    return text.empty() ? nlohmann::json{{"status", "running"}} : nlohmann::json::parse(text);
  };
  REQUIRE(SlurmCluster::comes_to([&] { return stopped()["status"] == "stopped"; }));
  const auto newest = newest_checkpoint(run_of(dir, job));
  CHECK(newest.step == stopped()["global_step"]);
  const ProgramResult verified = run_command(kProgram + " checkpoint verify " + newest.path);
  CAPTURE(verified.output);
  CHECK(verified.status == 0);
}

}  // namespace
}  // namespace cxtrain::test
