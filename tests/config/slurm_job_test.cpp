#include <algorithm>

#include "config/resolve_support.h"
#include "support/catch.h"
#include "support/error_text.h"

/// Plans of a process that was started alone in a Slurm job.
using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

using Environment = std::map<std::string, std::string>;

/// In a batch script of a job of 2 nodes.
Environment job_of(const char* tasks_per_node = nullptr) {
  Environment environment{{"SLURM_JOB_ID", "17"},
                          {"SLURM_JOB_NUM_NODES", "2"},
                          {"SLURM_JOB_CPUS_PER_NODE", "32(x2)"},
                          {"SLURMD_NODENAME", "n1"}};
  if (tasks_per_node != nullptr) environment["SLURM_NTASKS_PER_NODE"] = tasks_per_node;
  return environment;
}

Plan plan_in(const Environment& environment, const TrainerOptions& trainer, int gpus = 0) {
  Options options;
  options.trainer = trainer;
  Hardware hardware = machine(gpus);
  hardware.env = environment;
  return cxtrain::resolve(options, hardware, {}, own_strategies_and("some_plugin", {}));
}

TrainerOptions asked(std::optional<int> nodes, const char* devices = nullptr) {
  TrainerOptions trainer;
  trainer.num_nodes = nodes;
  if (devices != nullptr) trainer.devices = devices;
  return trainer;
}

std::vector<int> nodes_of(const Plan& plan) {
  std::vector<int> nodes;
  for (const RankPlan& rank : plan.ranks) nodes.push_back(rank.node);
  return nodes;
}

}  // namespace

TEST_CASE("a program that was started alone in a Slurm job starts itself on its nodes", "[config]") {
  const Plan plan = plan_in(job_of(), asked(2, "3"));
  INFO(all(plan.errors));
  REQUIRE(plan.ok());
  CHECK(plan.warnings.empty());
  CHECK(plan.launcher == "srun");
  CHECK(plan.strategy == "ddp");
  CHECK(plan.world_size == 6);
  CHECK(plan.num_nodes == 2);
  CHECK(nodes_of(plan) == std::vector{0, 0, 0, 1, 1, 1});
  CHECK(needs_launch(plan, {}));
}

TEST_CASE("who asks for a job's nodes has its tasks, or one GPU for each rank that it names", "[config]") {
  const auto ranks = [](const Environment& job, const char* devices, int gpus) {
    const Plan plan = plan_in(job, asked(2, devices), gpus);
    INFO(all(plan.errors));
    REQUIRE(plan.ok());
    CHECK(plan.strategy == "ddp");
    return plan.world_size;
  };
  CHECK(ranks(job_of(), nullptr, 0) == 2);
  CHECK(ranks(job_of("4"), nullptr, 0) == 8);
  CHECK(ranks(job_of("4"), nullptr, 4) == 8);
  CHECK(ranks(job_of("4"), "4", 4) == 8);
  CHECK(ranks(job_of(), "auto", 4) == 8);
  CHECK(ranks(job_of(), "1,3", 4) == 4);
}

TEST_CASE("a job and what is asked of it that contradict each other are refused", "[config]") {
  Plan plan = plan_in(job_of(), asked(3, "2"));
  REQUIRE(plan.errors.size() == 1);
  CHECK(plan.errors[0].option == "num_nodes");
  CHECK_THAT(plan.errors[0].message, test::contains("Slurm job 17") && test::contains("3 nodes"));
  CHECK_THAT(plan.errors[0].hint, test::contains("--nodes=3") && test::contains("--num_nodes 2"));
  TrainerOptions trainer = asked(2, "2");
  for (const char* strategy : {"single", "dp", "ddp_spawn"}) {
    trainer.strategy = strategy;
    plan = plan_in(job_of(), trainer);
    CAPTURE(strategy, all(plan.errors));
    CHECK(std::any_of(plan.errors.begin(), plan.errors.end(),
                      [](const Problem& problem) { return problem.option == "num_nodes"; }));
  }
}

TEST_CASE("a training that leaves nodes or tasks of its job idle says so", "[config]") {
  const auto warning = [](const Plan& plan) {
    INFO(all(plan.errors));
    REQUIRE(plan.ok());
    REQUIRE(plan.warnings.size() == 1);
    return plan.warnings[0];
  };
  CHECK_THAT(warning(plan_in(job_of("4"), {})).hint,
             test::contains("`srun --mpi=pmix`") && test::contains("--num_nodes 2"));
  const Problem tasks = warning(plan_in(job_of("4"), asked(2, "2")));
  CHECK(tasks.option == "devices");
  CHECK_THAT(tasks.hint, test::contains("`srun --mpi=pmix`") && test::contains("--devices 4"));
  CHECK(plan_in(job_of("1"), asked(1)).warnings.empty());
}

TEST_CASE("on a machine that is none of the job's nodes nothing is trained", "[config]") {
  Environment elsewhere = job_of();
  elsewhere.erase("SLURMD_NODENAME");
  const Plan one = plan_in(elsewhere, asked(1));
  REQUIRE(one.ok());
  CHECK(one.launcher == "srun");
  CHECK(one.world_size == 1);
  CHECK(plan_in(job_of(), asked(1)).launcher == "none");
  TrainerOptions spawn = asked(1, "2");
  spawn.strategy = "ddp_spawn";
  const Plan refused = plan_in(elsewhere, spawn);
  REQUIRE(refused.errors.size() == 1);
  CHECK(refused.errors[0].option == "strategy");
}

TEST_CASE("ranks that were started already take no notice of the job's words", "[config]") {
  Options options;
  Hardware hardware = machine(0);
  hardware.env = job_of("4");
  WorldFacts launched;
  launched.launched_by = LaunchedBy::srun;
  launched.size = 2;
  launched.num_nodes = 2;
  const Plan plan = cxtrain::resolve(options, hardware, launched, own_strategies_and("some_plugin", {}));
  REQUIRE(plan.ok());
  CHECK(plan.warnings.empty());
  CHECK(plan.num_nodes == 2);
}
