#include "cxtrain/config/strategy_choice.h"

#include "config/resolve_support.h"
#include "support/catch.h"
#include "support/error_text.h"

using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

/// A plan for the CPU: for two ranks where the strategy may have several.
Plan strategy_plan(const char* strategy, const StrategyOptions& given) {
  Options options;
  options.trainer.accelerator = "cpu";
  options.trainer.strategy = strategy;
  if (traits_of(own_strategies(), strategy).ranks != StrategyTraits::Ranks::one)
    options.trainer.devices = "2";
  options.strategy = given;
  return resolve(options, machine(0), {});
}

std::string errors_for(const char* strategy, const StrategyOptions& given) {
  return all(strategy_plan(strategy, given).errors);
}

}  // namespace

TEST_CASE("a strategy's arguments reach the plan, whether it is named or chosen", "[config]") {
  const char* strategy = GENERATE("auto", "ddp", "ddp_spawn");
  const Plan plan = strategy_plan(strategy, {.args = {{"bucket_bytes", "0"}, {"overlap", "false"}}});
  REQUIRE(all(plan.errors).empty());
  const Arguments& arguments = plan.strategy_arguments;
  const auto read = read_args<DdpArgs>(arguments);
  CHECK(read.bucket_bytes == 0);
  CHECK(read.overlap == false);
  CHECK(read.shard_optimizer == std::nullopt);
  CHECK(read.first_bucket_bytes == 1 << 20);
  CHECK_FALSE(read.find_unused_parameters);
  CHECK_FALSE(arguments.given("find_unused_parameters"));
}

TEST_CASE("the defaults of ddp's arguments are those of its settings", "[config]") {
  const DdpArgs defaults, found = read_args<DdpArgs>(strategy_plan("ddp", {}).strategy_arguments);
  CHECK(found.find_unused_parameters == defaults.find_unused_parameters);
  CHECK(found.overlap == defaults.overlap);
  CHECK(found.shard_optimizer == defaults.shard_optimizer);
  CHECK(found.first_bucket_bytes == defaults.first_bucket_bytes);
  CHECK(found.bucket_bytes == defaults.bucket_bytes);
  CHECK(found.comm_hook == defaults.comm_hook);
  CHECK(found.broadcast_buffers == defaults.broadcast_buffers);
}

TEST_CASE("a strategy's arguments that do not suit are refused, each under the name that was used",
          "[config]") {
  CHECK_THAT(errors_for("ddp", {.args = {{"bucket_bytes", "-1"},
                                         {"first_bucket_bytes", "1e6"},
                                         {"find_unused_parameters", "auto"},
                                         {"overlap", "perhaps"}}}),
             test::contains(test::code(MessageCode::out_of_range)) &&
                 test::contains("strategy.bucket_bytes:") &&
                 test::contains("strategy.find_unused_parameters:") &&
                 test::contains("strategy.first_bucket_bytes:") && test::contains("strategy.overlap:") &&
                 test::contains("true, false, auto") && test::contains("'-1'") && test::contains("'auto'") &&
                 test::contains("'1e6'") && test::contains("'perhaps'"));
  CHECK_THAT(errors_for("ddp", {.ddp_args = {{"bucket_bytes", "-1"}}}),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("ddp.bucket_bytes:") &&
                 test::contains("'-1'"));
  CHECK_THAT(errors_for("ddp", {.args = {{"bucket_byte", "1"}}, .ddp_args = {{"overlaps", "1"}}}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("ddp.overlaps:") &&
                 test::contains("strategy.bucket_byte:") && test::contains("--ddp.overlap") &&
                 test::contains("--strategy.bucket_bytes"));
  CHECK_THAT(errors_for("ddp", {.args = {{"banana", "1"}}}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("strategy.banana:") &&
                 test::contains("overlap, shard_optimizer, first_bucket_bytes, bucket_bytes, comm_hook, "
                                "model_averaging_period, model_averaging_start, outer_lr, outer_momentum, "
                                "find_unused_parameters, broadcast_buffers, network, topk_fraction"));
  CHECK_THAT(errors_for("dp", {.args = {{"banana", "1"}}}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("strategy.banana:"));
}

TEST_CASE("comm hooks that other settings leave nothing to do, or take the ground from, are refused",
          "[config]") {
  const char* strategy = GENERATE("ddp", "ddp_spawn");
  Options options;
  options.trainer.accelerator = "cpu";
  options.trainer.devices = "2";
  options.trainer.strategy = strategy;
  options.strategy.args = {{"comm_hook", "topk"}};
  CHECK(all(resolve(options, machine(0), {}).errors).empty());
  options.trainer.precision = "16-mixed";
  CHECK_THAT(all(resolve(options, machine(0), {}).errors),
             test::contains(test::code(MessageCode::conflicting_options)) &&
                 test::contains("topk needs no loss scale"));
  options.trainer.precision = "bf16-mixed";
  CHECK(all(resolve(options, machine(0), {}).errors).empty());
  options.strategy.args = {{"comm_hook", "bf16"}, {"model_averaging_period", "4"}};
  CHECK_THAT(all(resolve(options, machine(0), {}).errors),
             test::contains(test::code(MessageCode::conflicting_options)) &&
                 test::contains("model_averaging_period"));
  options.strategy.args = {{"outer_momentum", "0.9"}};
  CHECK_THAT(all(resolve(options, machine(0), {}).errors),
             test::contains(test::code(MessageCode::conflicting_options)) &&
                 test::contains("strategy.outer_momentum:") && test::contains("model_averaging_period"));
  // `config.yaml` has the defaults, too.
  options.strategy.args = {{"outer_lr", "1"}, {"outer_momentum", "0.0"}};
  CHECK(all(resolve(options, machine(0), {}).errors).empty());
  options.strategy.args = {{"outer_lr", "0.7"}, {"model_averaging_period", "4"}};
  CHECK(all(resolve(options, machine(0), {}).errors).empty());
}

TEST_CASE("a strategy that takes comm hooks has their arguments, and the plan those of the chosen one",
          "[config]") {
  Plan plan = strategy_plan("ddp", {});
  CHECK_FALSE(plan.comm_hook.has_value());
  CHECK(plan.strategy_arguments.text("topk_fraction") == "0.01");  // as `config.yaml` has it
  plan = strategy_plan("ddp", {.args = {{"comm_hook", "topk"}, {"topk_fraction", "0.1"}}});
  CHECK(all(plan.errors).empty());
  REQUIRE(plan.comm_hook.has_value());
  CHECK(plan.comm_hook->name == "topk");
  CHECK(plan.comm_hook->arguments.text("fraction") == "0.1");
  CHECK(plan.comm_hook->arguments.given("fraction"));
  CHECK(plan.comm_hook->traits.remembered_gradients == 1);
  CHECK_THAT(
      errors_for("ddp", {.args = {{"comm_hook", "topk"}, {"topk_fraction", "2"}}}),
      test::contains(test::code(MessageCode::out_of_range)) && test::contains("strategy.topk_fraction:"));
  CHECK_THAT(errors_for("ddp", {.args = {{"comm_hook", "topc"}}}),
             test::contains(test::code(MessageCode::unknown_name)) && test::contains("strategy.comm_hook:") &&
                 test::contains("topk"));
  CHECK_THAT(errors_for("zero", {.args = {{"comm_hook", "topk"}}}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("ddp, ddp_spawn"));
  // Why it cannot be loaded is said by who has tried.
  plan = strategy_plan("ddp", {.args = {{"comm_hook", "damaged"}}});
  CHECK(all(plan.errors).empty());
  CHECK_FALSE(plan.comm_hook.has_value());
}

TEST_CASE("an argument that only other strategies have is refused; under its older name it is ignored",
          "[config]") {
  const char* strategy = GENERATE("single", "dp");
  CHECK_THAT(errors_for(strategy, {.args = {{"bucket_bytes", "5"}}}),
             test::contains(test::code(MessageCode::unknown_option)) &&
                 test::contains("strategy.bucket_bytes: ") && test::contains(strategy) &&
                 test::contains("ddp, ddp_spawn"));
  const Plan plan = strategy_plan(strategy, {.ddp_args = {{"bucket_bytes", "5"}}});
  CHECK(all(plan.errors).empty());
  CHECK_THAT(all(plan.warnings), test::contains("ddp.bucket_bytes: ") && test::contains(strategy) &&
                                     test::contains("ddp, ddp_spawn"));
  CHECK(plan.strategy_arguments.values().empty());
  CHECK_THAT(errors_for(strategy, {.ddp_args = {{"bucket_byte", "5"}}}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("ddp.bucket_byte: ") &&
                 test::contains(strategy));
}

TEST_CASE("a preset sets the argument that its name says, and an explicit one wins", "[config]") {
  const auto finds_unused = [](const char* strategy, const StrategyOptions& given = {}) {
    const Plan plan = strategy_plan(strategy, given);
    CHECK(all(plan.errors).empty());
    return read_args<DdpArgs>(plan.strategy_arguments).find_unused_parameters;
  };
  CHECK_FALSE(finds_unused("ddp"));
  CHECK(finds_unused("ddp_find_unused_parameters_true"));
  CHECK(finds_unused("ddp_spawn_find_unused_parameters_true"));
  CHECK_FALSE(finds_unused("ddp_find_unused_parameters_false"));
  const std::string name = "find_unused_parameters";
  CHECK_FALSE(finds_unused("ddp_find_unused_parameters_true", {.args = {{name, "false"}}}));
  CHECK(finds_unused("ddp_find_unused_parameters_false", {.ddp_args = {{name, "true"}}}));
  CHECK(finds_unused("ddp", {.args = {{name, "true"}}, .ddp_args = {{name, "false"}}}));

  Options by_accelerator;
  by_accelerator.trainer.accelerator = "ddp_find_unused_parameters_true";
  by_accelerator.trainer.devices = "2";
  CHECK(resolve(by_accelerator, machine(2), {}).strategy_arguments.text(name) == "true");
}

TEST_CASE("a strategy that could not be chosen is not held to account for its arguments", "[config]") {
  Options options;
  options.strategy.args["bucket_bytes"] = "5";
  options.trainer.gpus = "7";
  const std::string errors = all(resolve(options, machine(2), {}).errors);
  CHECK_THAT(errors, test::contains("gpus: ") && !test::contains("bucket_bytes"));
  options.trainer.gpus.reset();
  options.trainer.strategy = "horovod";
  CHECK_THAT(all(resolve(options, machine(1), {}).errors), !test::contains("bucket_bytes"));
  options.trainer.strategy = "single";
  options.trainer.max_steps = -5;
  CHECK_THAT(all(resolve(options, machine(1), {}).errors),
             test::contains("max_steps: ") && test::contains("strategy.bucket_bytes: "));
}
