#include "support/catch.h"
#include "support/error_text.h"

#include "config/resolve_support.h"
#include "cxtrain/config/strategy_choice.h"

using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

Plan plan_for(const char* accelerator, const char* strategy, const char* devices, int gpus,
              const WorldFacts& launched = {}, int devices_per_rank = 1) {
  Options options;
  if (accelerator) options.trainer.accelerator = accelerator;
  if (strategy) options.trainer.strategy = strategy;
  if (devices) options.trainer.devices = devices;
  options.trainer.devices_per_rank = devices_per_rank;
  return resolve(options, machine(gpus), launched);
}

}  // namespace

TEST_CASE("names of strategies that mean ours", "[config]") {
  struct Row {
    const char *typed, *name;
    std::map<std::string, std::string> arguments = {};
  };
  const std::string unused = "find_unused_parameters";
  for (const Row& row : {Row{"ddp", "ddp"},
                         {"ddp_find_unused_parameters_true", "ddp", {{unused, "true"}}},
                         {"ddp_find_unused_parameters_false", "ddp", {{unused, "false"}}},
                         {"ddp_find_unused_parameters_maybe", "ddp_find_unused_parameters_maybe"},
                         {"ddp_spawn", "ddp_spawn"},
                         {"ddp_spawn_find_unused_parameters_true", "ddp_spawn", {{unused, "true"}}},
                         {"ddp_spawn_find_unused_parameters_false", "ddp_spawn", {{unused, "false"}}},
                         {"dp", "dp"},
                         {"zero", "zero"},
                         {"ddp_sharded", "zero", {{"stage", "2"}}},
                         {"fsdp", "zero", {{"stage", "3"}}},
                         {"fsdp_cpu_offload", "zero", {{"stage", "3"}}},
                         {"deepspeed", "zero", {{"stage", "2"}}},
                         {"deepspeed_stage_1", "zero", {{"stage", "1"}}},
                         {"deepspeed_stage_2", "zero", {{"stage", "2"}}},
                         {"deepspeed_stage_3", "zero", {{"stage", "3"}}},
                         {"single_device", "single"},
                         {"my_own", "my_own"}}) {
    INFO(row.typed);
    CHECK(read_strategy_name(row.typed).name == row.name);
    CHECK(read_strategy_name(row.typed).arguments == row.arguments);
  }
  TrainerOptions trainer;
  CHECK(named_strategy(trainer, {}) == std::nullopt);
  trainer.strategy = "auto";
  CHECK(named_strategy(trainer, {}) == std::nullopt);
  trainer.strategy = "ddp_find_unused_parameters_true";
  CHECK(named_strategy(trainer, {}) == "ddp");
}

TEST_CASE("zero divides parameters everywhere, and refuses to map them where ranks share no memory",
          "[config]") {
  Options options;
  options.trainer.accelerator = "cpu";
  options.trainer.strategy = "fsdp";
  const auto errors = [&](const Hardware& hardware, std::vector<int> ranks) {
    return all(resolve(options, hardware, under_mpirun(std::move(ranks))).errors);
  };
  for (const std::vector<int>& ranks : {List{2}, List{2, 1}, List{1}, List{1, 1}})
    CHECK(errors(machine(0), ranks).empty());
  CHECK(all(plan_for("gpu", "fsdp", "2", 2).errors).empty());
  options.strategy.args["parameters"] = "mapped";
  CHECK(errors(machine(0), {2}).empty());
  CHECK(errors(machine(0), {2, 1}).empty());
  CHECK_THAT(errors(machine(0), {1, 1}),
             test::contains("strategy.parameters: mapped") && test::contains("--strategy.parameters all"));
  options.strategy.args["stage"] = "2";
  CHECK_THAT(errors(machine(0), {2}), test::contains("strategy.parameters: is for stage 3"));
  options.strategy.args.erase("stage");
  options.trainer.accelerator = "gpu";
  options.trainer.devices = "2";
  CHECK_THAT(all(resolve(options, machine(2), {}).errors),
             test::contains("GPUs") && test::contains("--strategy.stage 2"));
}

TEST_CASE("recomputation is refused where random numbers or statistics cannot be repeated", "[config]") {
  Options options;
  options.trainer.accelerator = "cpu";
  options.trainer.recompute_blocks = true;
  options.trainer.strategy = "ddp";
  const auto errors = [&] { return all(resolve(options, machine(0), under_mpirun({2})).errors); };
  CHECK(errors().empty());
  options.trainer.sync_batchnorm = true;
  CHECK_THAT(errors(), test::contains("recompute_blocks: ranks would exchange the statistics"));
  options.trainer.sync_batchnorm = false;
  options.trainer.strategy = "pipeline";
  CHECK(errors().empty());
  options.strategy.args["schedule"] = "zb1p";
  CHECK_THAT(errors(), test::contains("recompute_blocks: zb1p") && test::contains("1f1b"));
  options.strategy.args.clear();
  options.trainer.strategy = "dp";
  options.trainer.devices = "2";
  CHECK_THAT(all(resolve(options, machine(0), {}).errors), test::contains("recompute_blocks: replicas"));
}

TEST_CASE("names of strategies that exist in Lightning only", "[config]") {
  const char* name =
      GENERATE("ddp2", "ddp_notebook", "ddp_notebook_find_unused_parameters_false", "ddp_fork",
               "ddp_fork_find_unused_parameters_true", "ddp_sharded_spawn", "fsdp_native_full_shard_offload",
               "deepspeed_stage_2_offload", "deepspeed_stage_3_offload", "colossalai", "horovod", "bagua",
               "hivemind", "collaborative", "tpu_spawn", "tpu_spawn_debug", "single_tpu", "xla", "xla_fsdp",
               "hpu_parallel", "single_hpu", "ipu_strategy", "model_parallel", "rpc_sequential");
  const Plan plan = plan_for(nullptr, name, "2", 2);
  REQUIRE(plan.errors.size() == 1);
  CHECK(plan.errors[0].option == "strategy");
  CHECK(plan.errors[0].code == MessageCode::unsupported_option);
  CHECK_THAT(plan.errors[0].message, test::contains("'" + std::string(name) + "'"));
  CHECK_THAT(plan.errors[0].hint, test::contains("--"));
}

TEST_CASE("a plugin may have a name that Lightning had", "[config]") {
  const std::vector<std::string> names{"ddp", "fsdp", "single"};
  const KnownStrategies strategies{{"ddp", KnownStrategy{ddp_traits(), argument_specs<DdpArgs>()}},
                                   {"fsdp", std::nullopt},
                                   {"single", KnownStrategy{single_traits()}}};
  Options options;
  options.trainer.strategy = "fsdp";
  options.trainer.devices = "2";
  const Plan plan = cxtrain::resolve(options, machine(2), {}, strategies);
  CHECK(all(plan.errors).empty());
  CHECK(plan.strategy == "fsdp");
  CHECK(read_strategy_name("fsdp", names).name == "fsdp");
  CHECK(read_strategy_name("fsdp_native_full_shard_offload", names).name.empty());
  options.trainer.strategy = "DDP";
  CHECK_THAT(all(resolve(options, machine(2), {}, strategies).errors),
             test::contains(test::code(MessageCode::unknown_name)) && test::contains("strategy:") &&
                 test::contains("ddp") && test::contains("'DDP'"));
  options.trainer.strategy = "banana";
  CHECK_THAT(all(resolve(options, machine(2), {}, strategies).errors),
             test::contains(test::code(MessageCode::unknown_name)) && test::contains("strategy:") &&
                 test::contains("ddp, fsdp, single") && test::contains("'banana'"));
}

TEST_CASE("accelerator may name a strategy, as in Lightning 1.4", "[config]") {
  const Plan ddp = plan_for("ddp", nullptr, "2", 4);
  REQUIRE(ddp.ok());
  CHECK(ddp.strategy == "ddp");
  CHECK(ddp.accelerator == "gpu");
  CHECK_THAT(all(ddp.warnings), test::contains("accelerator:") && test::contains("--strategy") &&
                                    test::contains("accelerator=ddp") && test::contains("1.5"));
  CHECK(plan_for("dp", nullptr, "4", 4).strategy == "dp");
  CHECK(plan_for("ddp_spawn", nullptr, "2", 4).launcher == "spawn");
  const Plan cpu = plan_for("ddp_cpu", nullptr, "2", 4);
  CHECK(cpu.accelerator == "cpu");
  CHECK(cpu.strategy == "ddp");
  CHECK(plan_for("ddp", "ddp", "2", 4).ok());
  CHECK_THAT(all(plan_for("ddp", "dp", "2", 4).errors),
             test::contains(test::code(MessageCode::conflicting_options)) && test::contains("accelerator:") &&
                 test::contains("--accelerator") && test::contains("accelerator=ddp") &&
                 test::contains("strategy=dp"));
  CHECK_THAT(all(plan_for("horovod", nullptr, "2", 4).errors),
             test::contains(test::code(MessageCode::unsupported_option)) && test::contains("strategy:") &&
                 test::contains("'horovod'") && test::contains("--strategy"));
}

TEST_CASE("dp on the CPU keeps replicas in one process", "[config]") {
  const Plan plan = plan_for("cpu", "dp", "4", 8);
  REQUIRE(plan.ok());
  CHECK(plan.world_size == 1);
  CHECK(plan.launcher == "none");
  CHECK(plan.replicas == 4);
  CHECK(plan.devices.empty());
  CHECK(plan.ranks.at(0).devices == std::vector<std::string>(4, "cpu"));
  CHECK_THAT(to_text(plan), test::contains("rank 0") && test::contains("4 replicas"));
  CHECK_THAT(to_json(plan), test::contains("\"replicas\":4"));
  CHECK(plan_for("cpu", "dp", "3", 0, under_mpirun({1})).replicas == 3);
  CHECK(plan_for("cpu", "dp", nullptr, 0).replicas == 1);
  CHECK(plan_for(nullptr, "dp", "1,3", 4).replicas == 2);
  CHECK(plan_for(nullptr, "dp", "auto", 4).replicas == 4);
  CHECK(plan_for(nullptr, "ddp", "4", 4).replicas == 1);
  CHECK_THAT(all(plan_for("cpu", "dp", "64", 0).warnings),
             test::contains("devices:") && test::contains("--devices 32") && test::contains("64 replicas") &&
                 test::contains("32 cores"));
}

TEST_CASE("ddp_spawn is ddp where the ranks exist already", "[config]") {
  const Plan joined = plan_for("cpu", "ddp_spawn", "2", 0, under_mpirun({2}));
  CHECK(joined.strategy == "ddp");
  CHECK(joined.launcher == "mpirun");
  CHECK_THAT(all(joined.warnings),
             test::contains("strategy:") && test::contains("--strategy") && test::contains("ddp_spawn"));
  WorldFacts spawned = under_mpirun({2});
  spawned.launched_by = LaunchedBy::spawn;
  const Plan ours = plan_for("cpu", "ddp_spawn", "2", 0, spawned);
  CHECK(ours.strategy == "ddp_spawn");
  CHECK(ours.launcher == "spawn");
  CHECK(ours.warnings.empty());
}

TEST_CASE("devices_per_rank deals consecutive devices out", "[config]") {
  SECTION("on GPUs") {
    const Plan plan = plan_for(nullptr, nullptr, "4", 8, {}, 2);
    REQUIRE(plan.ok());
    CHECK(plan.strategy == "ddp");
    CHECK(plan.world_size == 2);
    CHECK(plan.devices == std::vector{0, 1, 2, 3});
    CHECK(plan.ranks[0].devices == Names{"cuda:0", "cuda:1"});
    CHECK(plan.ranks[1].devices == Names{"cuda:2", "cuda:3"});
    CHECK(plan.ranks[1].device == "cuda:2");
    CHECK(plan.ranks[1].gpus == std::vector{2, 3});
  }
  SECTION("in the order asked") {
    CHECK(plan_for(nullptr, "ddp", "3,1,0,2", 4, {}, 2).ranks.at(1).devices == Names{"cuda:0", "cuda:2"});
  }
  SECTION("one process is enough for one rank") {
    const Plan plan = plan_for(nullptr, "single", "2", 4, {}, 2);
    REQUIRE(plan.ok());
    CHECK(plan.launcher == "none");
    CHECK(plan.ranks[0].devices == Names{"cuda:0", "cuda:1"});
    CHECK(plan_for(nullptr, nullptr, nullptr, 4, {}, 2).ranks.at(0).devices == Names{"cuda:0", "cuda:1"});
  }
  SECTION("on the CPU devices count the same") {
    const Plan plan = plan_for("cpu", nullptr, "4", 0, {}, 2);
    CHECK(plan.world_size == 2);
    CHECK(plan.ranks[1].devices == Names{"cpu", "cpu"});
  }
  SECTION("under mpirun") {
    const Plan plan = plan_for(nullptr, nullptr, nullptr, 4, under_mpirun({2, 2}), 2);
    REQUIRE(plan.ok());
    CHECK(plan.ranks[3].devices == Names{"cuda:2", "cuda:3"});
    CHECK(plan.devices == std::vector{0, 1, 2, 3});
    CHECK(plan_for(nullptr, nullptr, "4", 4, under_mpirun({2}), 2).ok());
    CHECK_THAT(all(plan_for(nullptr, nullptr, "4", 4, under_mpirun({4}), 2).errors),
               test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("devices:") &&
                   test::contains("`mpirun -np 2 cxtrain_mpi ...`") && test::contains("4 devices") &&
                   test::contains("4 ranks"));
    CHECK_THAT(all(plan_for(nullptr, nullptr, nullptr, 4, under_mpirun({3}), 2).errors),
               test::contains(test::code(MessageCode::no_device)) && test::contains("devices_per_rank:") &&
                   test::contains("--devices_per_rank") && test::contains("node n1") &&
                   test::contains("3 ranks") && test::contains("2 GPUs") && test::contains("4 GPUs"));
  }
  SECTION("auto takes what divides") {
    CHECK(plan_for(nullptr, nullptr, "auto", 5, {}, 2).devices == std::vector{0, 1, 2, 3});
  }
  SECTION("refusals") {
    CHECK_THAT(all(plan_for(nullptr, nullptr, "3", 4, {}, 2).errors),
               test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("devices:") &&
                   test::contains("3 devices") && test::contains("4 devices") &&
                   test::contains("devices_per_rank=2"));
    CHECK_THAT(all(plan_for(nullptr, nullptr, "1", 4, {}, 2).errors),
               test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("devices:") &&
                   test::contains("1 device") && test::contains("2 devices") &&
                   test::contains("devices_per_rank=2"));
    CHECK_THAT(all(plan_for(nullptr, "single", "4", 4, {}, 2).errors),
               test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("strategy:") &&
                   test::contains("2 devices") && test::contains("4 devices"));
    CHECK_THAT(
        all(plan_for(nullptr, "dp", "4", 4, {}, 2).errors),
        test::contains(test::code(MessageCode::conflicting_options)) && test::contains("devices_per_rank:"));
  }
}

TEST_CASE("a strategy is planned by its traits, whatever it is called", "[config]") {
  using Traits = StrategyTraits;
  const auto plan_with_traits = [](const Traits& traits, const TrainerOptions& asked,
                                   const WorldFacts& launched = {}) {
    Options options;
    options.trainer = asked;
    options.trainer.strategy = "mine";
    return cxtrain::resolve(options, machine(4), launched, own_strategies_and("mine", traits));
  };
  const Traits one_replicas{.ranks = Traits::Ranks::one, .devices = Traits::Devices::replicas};
  CHECK(plan_with_traits(one_replicas, {.devices = "auto"}).replicas == 4);
  CHECK(plan_with_traits(one_replicas, {.devices = "auto"}).world_size == 1);
  CHECK(plan_with_traits({.ranks = Traits::Ranks::one}, {.devices = "auto"}).devices == std::vector{0});
  CHECK_THAT(all(plan_with_traits({.ranks = Traits::Ranks::one}, {.devices = "2"}).errors),
             test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("strategy:") &&
                 test::contains("2 devices"));

  const Traits replicas{.devices = Traits::Devices::replicas};
  const Plan grid = plan_with_traits(replicas, {.devices = "4", .devices_per_rank = 2});
  CHECK(all(grid.errors).empty());
  CHECK(grid.world_size == 2);
  CHECK(grid.replicas == 2);
  CHECK(grid.ranks.at(1).devices == std::vector<std::string>{"cuda:2", "cuda:3"});
  CHECK(plan_with_traits(replicas, {.devices_per_rank = 2}, under_mpirun({2})).replicas == 2);
  CHECK_THAT(all(plan_with_traits(replicas, {.amp_level = "O2"}).errors),
             test::contains(test::code(MessageCode::conflicting_options)) && test::contains("amp_level:") &&
                 test::contains("O2") && test::contains("mine"));

  CHECK_THAT(all(plan_with_traits({.devices = Traits::Devices::one}, {.devices_per_rank = 2}).errors),
             test::contains(test::code(MessageCode::conflicting_options)) &&
                 test::contains("devices_per_rank:") && test::contains("--strategy") &&
                 test::contains("devices_per_rank=2"));
  const Traits spawns{.launcher = Traits::Launcher::spawn};
  CHECK(plan_with_traits(spawns, {.devices = "2"}).launcher == "spawn");
  CHECK(plan_with_traits(spawns, {.devices = "2"}, under_mpirun({2})).strategy == "mine");
}
