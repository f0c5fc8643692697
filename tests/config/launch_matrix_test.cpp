#include <algorithm>
#include "support/catch.h"
#include "support/error_text.h"

#include "config/resolve_support.h"

using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

Plan launch_plan(const TrainerOptions& trainer, const Hardware& hardware, const WorldFacts& launched = {}) {
  Options options;
  options.trainer = trainer;
  return cxtrain::resolve(options, hardware, launched, own_strategies_and("some_plugin", {}));
}

struct Row {
  int gpus;
  const char *accelerator, *devices, *strategy;  // nullptr: not given
  const char *got_accelerator, *got_strategy, *launcher;
  int world;
};

TrainerOptions trainer_of(const char* accelerator, const char* devices, const char* strategy) {
  TrainerOptions trainer;
  if (accelerator) trainer.accelerator = accelerator;
  if (devices) trainer.devices = devices;
  if (strategy) trainer.strategy = strategy;
  return trainer;
}

}  // namespace

TEST_CASE("started alone", "[config]") {
  const Row row = GENERATE(Row{0, nullptr, nullptr, nullptr, "cpu", "single", "none", 1},
                           Row{1, nullptr, nullptr, nullptr, "gpu", "single", "none", 1},
                           Row{8, nullptr, nullptr, nullptr, "gpu", "single", "none", 1},
                           Row{8, "cpu", nullptr, nullptr, "cpu", "single", "none", 1},
                           Row{4, "cuda", nullptr, nullptr, "gpu", "single", "none", 1},
                           Row{0, nullptr, "4", nullptr, "cpu", "ddp", "subprocess", 4},
                           Row{0, nullptr, "auto", nullptr, "cpu", "single", "none", 1},
                           Row{4, nullptr, "2", nullptr, "gpu", "ddp", "subprocess", 2},
                           Row{4, nullptr, "auto", nullptr, "gpu", "ddp", "subprocess", 4},
                           Row{4, nullptr, "-1", nullptr, "gpu", "ddp", "subprocess", 4},
                           Row{1, nullptr, "-1", nullptr, "gpu", "single", "none", 1},
                           Row{4, nullptr, "auto", "single", "gpu", "single", "none", 1},
                           Row{4, nullptr, nullptr, "ddp", "gpu", "ddp", "none", 1},
                           Row{4, nullptr, nullptr, "auto", "gpu", "single", "none", 1},
                           Row{4, nullptr, "3", "ddp", "gpu", "ddp", "subprocess", 3},
                           Row{4, nullptr, "2", "ddp_spawn", "gpu", "ddp_spawn", "spawn", 2},
                           Row{0, nullptr, "3", "ddp_spawn", "cpu", "ddp_spawn", "spawn", 3},
                           Row{4, nullptr, "4", "dp", "gpu", "dp", "none", 1},
                           Row{8, "cpu", "2", "some_plugin", "cpu", "some_plugin", "subprocess", 2});
  CAPTURE(row.gpus, row.accelerator ? row.accelerator : "-", row.devices ? row.devices : "-",
          row.strategy ? row.strategy : "-");
  const Plan plan = launch_plan(trainer_of(row.accelerator, row.devices, row.strategy), machine(row.gpus));
  INFO(all(plan.errors));
  REQUIRE(plan.ok());
  CHECK(plan.accelerator == row.got_accelerator);
  CHECK(plan.strategy == row.got_strategy);
  CHECK(plan.launcher == row.launcher);
  CHECK(plan.world_size == row.world);
  CHECK(plan.num_nodes == 1);
  CHECK(plan.ranks.size() == static_cast<std::size_t>(row.world));
  CHECK(plan.devices.empty() == (plan.accelerator == "cpu"));
}

TEST_CASE("each rank gets the device that was asked for", "[config]") {
  TrainerOptions trainer;
  trainer.gpus = "2,0";
  Hardware hardware = machine(8);
  CHECK(devices_of(launch_plan(trainer, hardware)) == Names{"cuda:2", "cuda:0"});
  hardware.env["CUDA_VISIBLE_DEVICES"] = "5,6,7";
  const Plan plan = launch_plan(trainer, hardware);
  CHECK(plan.devices == std::vector{2, 0});
  REQUIRE(plan.ranks.size() == 2);
  CHECK(plan.ranks[0].device == "cuda:2");
  CHECK(plan.ranks[0].gpu == 7);
  CHECK(plan.ranks[0].uuid == "GPU-7");
  CHECK(plan.ranks[1].gpu == 5);
  const Plan same = launch_plan(trainer, hardware, under_mpirun({2, 2}));
  CHECK(devices_of(same) == Names{"cuda:2", "cuda:0", "cuda:2", "cuda:0"});
  CHECK(same.devices == std::vector{2, 0});
}

TEST_CASE("dp is one rank over all its devices", "[config]") {
  const Plan plan = launch_plan(trainer_of(nullptr, "1,3", "dp"), machine(4));
  CHECK(plan.devices == std::vector{1, 3});
  CHECK(devices_of(plan) == Names{"cuda:1"});
  CHECK(launch_plan(trainer_of(nullptr, "auto", "dp"), machine(4)).devices == std::vector{0, 1, 2, 3});
  CHECK(launch_plan(trainer_of(nullptr, "1,3", "dp"), machine(4), under_mpirun({1})).ok());
}

TEST_CASE("under mpirun the world is theirs", "[config]") {
  SECTION("without devices, one GPU per local rank") {
    const Plan plan = launch_plan({}, machine(4), under_mpirun({4, 4}));
    REQUIRE(plan.ok());
    CHECK(plan.strategy == "ddp");
    CHECK(plan.launcher == "mpirun");
    CHECK(plan.world_size == 8);
    CHECK(plan.num_nodes == 2);
    CHECK(plan.devices == std::vector{0, 1, 2, 3});
    CHECK(plan.ranks[5].node == 1);
    CHECK(plan.ranks[5].local_rank == 1);
    CHECK(plan.ranks[5].device == "cuda:1");
    CHECK(plan.warnings.empty());
  }
  SECTION("on machines without GPUs, CPU ranks") {
    const Plan plan = launch_plan({}, machine(0), under_mpirun({3}));
    CHECK(plan.ok());
    CHECK(plan.accelerator == "cpu");
    CHECK(devices_of(plan) == Names{"cpu", "cpu", "cpu"});
  }
  SECTION("one rank: single") {
    const Plan plan = launch_plan({}, machine(4), under_mpirun({1}));
    CHECK(plan.strategy == "single");
    CHECK(plan.launcher == "mpirun");
    CHECK(plan.devices == std::vector{0});
  }
  SECTION("more ranks than GPUs share them, with a warning") {
    const Plan plan = launch_plan({}, machine(2), under_mpirun({5}));
    REQUIRE(plan.ok());
    CHECK(devices_of(plan) == Names{"cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"});
    CHECK_THAT(all(plan.warnings), test::contains("5 ranks share 2 GPUs"));
  }
  SECTION("uneven nodes, and ranks dealt in turns") {
    WorldFacts facts = under_mpirun({3, 1});
    facts.rank_nodes = {0, 1, 0, 0};
    const Plan plan = launch_plan({}, machine(4), facts);
    REQUIRE(plan.ok());
    CHECK(devices_of(plan) == Names{"cuda:0", "cuda:0", "cuda:1", "cuda:2"});
    CHECK(plan.ranks[1].node == 1);
  }
  SECTION("without the list of nodes, ranks fill them in blocks") {
    WorldFacts facts = under_mpirun({2, 2});
    facts.rank_nodes.clear();
    const Plan plan = launch_plan({}, machine(2), facts);
    CHECK(devices_of(plan) == Names{"cuda:0", "cuda:1", "cuda:0", "cuda:1"});
    CHECK(plan.ranks[2].node == 1);
  }
  SECTION("devices and num_nodes that agree") {
    TrainerOptions trainer = trainer_of(nullptr, "4", "ddp");
    trainer.num_nodes = 2;
    CHECK(launch_plan(trainer, machine(8), under_mpirun({4, 4})).ok());
    CHECK(launch_plan(trainer_of(nullptr, "auto", nullptr), machine(8), under_mpirun({4})).ok());
    CHECK(launch_plan(trainer_of("cpu", "4", nullptr), machine(8), under_mpirun({4})).ok());
    CHECK(launch_plan(trainer_of("cpu", "3", "ddp_spawn"), machine(0), under_mpirun({3})).launcher ==
          "mpirun");
  }
  SECTION("srun is named") {
    WorldFacts facts = under_mpirun({2});
    facts.launched_by = LaunchedBy::srun;
    CHECK(launch_plan({}, machine(2), facts).launcher == "srun");
    CHECK_THAT(all(launch_plan(trainer_of(nullptr, "1", nullptr), machine(2), facts).errors),
               test::contains("srun --mpi=pmix -N 1 -n 1 --ntasks-per-node=1 cxtrain_mpi"));
    facts = under_mpirun({2, 2});
    facts.launched_by = LaunchedBy::srun;
    CHECK_THAT(all(launch_plan(trainer_of(nullptr, "1", nullptr), machine(2), facts).errors),
               test::contains(test::code(MessageCode::wrong_ranks)) &&
                   test::contains("`SLURM_PMIX_FENCE=ring srun --mpi=pmix -N 2 -n 2 --ntasks-per-node=1"));
  }
}

TEST_CASE("a world that disagrees shows both numbers and the right command line", "[config]") {
  const auto errors = [](const TrainerOptions& trainer, const WorldFacts& facts) {
    return all(launch_plan(trainer, machine(8), facts).errors);
  };
  CHECK_THAT(errors(trainer_of(nullptr, "2", nullptr), under_mpirun({4})),
             test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("devices:") &&
                 test::contains("`mpirun -np 2 cxtrain_mpi ...`") && test::contains("--devices") &&
                 test::contains("2 devices") && test::contains("4 ranks"));
  CHECK_THAT(errors(trainer_of(nullptr, "4", nullptr), under_mpirun({4, 2})),
             test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("2 to 4") &&
                 test::contains("mpirun -np 8 --map-by ppr:4:node"));
  TrainerOptions nodes;
  nodes.num_nodes = 2;
  CHECK_THAT(errors(nodes, under_mpirun({4})), test::contains(test::code(MessageCode::wrong_ranks)) &&
                                                   test::contains("num_nodes:") &&
                                                   test::contains("2 nodes") && test::contains("1 node"));
  CHECK_THAT(errors(nodes, {}), test::contains(test::code(MessageCode::wrong_ranks)) &&
                                    test::contains("num_nodes:") && test::contains("mpirun -np 2"));
  nodes.num_nodes = 0;
  CHECK_THAT(errors(nodes, {}),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("num_nodes:"));
  CHECK_THAT(errors(trainer_of(nullptr, nullptr, "single"), under_mpirun({4})),
             test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("strategy:") &&
                 test::contains("single") && test::contains("mpirun") && test::contains("4"));
  CHECK_THAT(errors(trainer_of(nullptr, "4", "dp"), under_mpirun({2})),
             test::contains("2 unrelated trainings"));
  CHECK_THAT(errors(trainer_of(nullptr, "2", "single"), {}),
             test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("single") &&
                 test::contains("2 devices"));
}

TEST_CASE("processes far above the cores are refused, unless the user starts them", "[config]") {
  const auto errors = [](const char* devices, int cores, const char* strategy = nullptr,
                         const WorldFacts& launched = {}) {
    Options options;
    options.trainer.accelerator = "cpu";
    options.trainer.devices = devices;
    if (strategy != nullptr) options.trainer.strategy = strategy;
    return all(resolve(options, machine(0, cores), launched).errors);
  };
  CHECK(errors("4", 2).empty());
  CHECK(errors("16", 1).empty());
  CHECK_THAT(errors("17", 2),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("devices:") &&
                 test::contains("`mpirun --oversubscribe -np 17`") && test::contains("--devices 2") &&
                 test::contains("17 processes") && test::contains("2 cores") && test::contains("16"));
  CHECK(errors("256", 32).empty());
  CHECK_THAT(errors("257", 32),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("256"));
  CHECK_THAT(errors("3000", 2, "dp"), test::contains(test::code(MessageCode::out_of_range)) &&
                                          test::contains("3000 replicas") && test::contains("2 cores") &&
                                          !test::contains("mpirun"));
  CHECK(errors("100", 2, "ddp", under_mpirun({100})).empty());
}

TEST_CASE("counts that no machine has are refused before they are planned for", "[config]") {
  Options options;
  options.trainer.devices = "2147483647";
  CHECK_THAT(all(resolve(options, machine(0), {}).errors),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("100000"));
  options.trainer.devices.reset();
  options.trainer.num_processes = 2147483647;
  CHECK_THAT(all(resolve(options, machine(0), {}).errors),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("100000"));
  options.trainer.num_processes.reset();
  options.trainer.devices_per_rank = 2147483647;
  CHECK_THAT(all(resolve(options, machine(0), {}).errors),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("devices_per_rank:") &&
                 test::contains("2147483647"));
  options.trainer.devices_per_rank = 1;
  options.trainer.num_nodes = 2147483647;
  CHECK_THAT(all(resolve(options, machine(0), {}).errors),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("num_nodes:") &&
                 test::contains("2147483647"));
  options.trainer.num_nodes = 100'000;
  options.trainer.devices = "100000";
  CHECK_THAT(all(resolve(options, machine(0), {}).errors), test::contains("mpirun -np 10000000000"));
}
