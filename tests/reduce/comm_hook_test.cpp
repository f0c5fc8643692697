#include "cxtrain/reduce/comm_hook.h"

#include "cxtrain/callbacks/built_in.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/plugin/known_components.h"
#include "cxtrain/reduce/power_sgd.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

/// A plan for two ranks of `ddp` on the CPU.
Plan hooked_plan(const std::string& hook, const std::string& precision) {
  Registry registry;
  register_built_in(registry);
  Options options;
  options.trainer.accelerator = "cpu";
  options.trainer.devices = "2";
  options.trainer.strategy = "ddp";
  options.trainer.precision = precision;
  options.strategy.args = {{"comm_hook", hook}, {"powersgd_rank", "4"}};
  Hardware hardware;
  hardware.nodes.emplace_back();
  return plan_with_plugins(registry, options, hardware, {});
}

TEST_CASE("plans know the program's comm hooks", "[reduce]") {
  Registry registry;
  register_built_in(registry);
  CHECK(registry.names(CommHook::kKind) == std::vector<std::string>{"auto", "bf16", "fp16", "powersgd"});
  const Plan plan = hooked_plan("powersgd", "bf16-mixed");
  REQUIRE(plan.comm_hook.has_value());
  const auto args = read_args<PowerSgd::Args>(plan.comm_hook->arguments);
  CHECK(args.rank == 4);
  CHECK(args.start == 1000);
  CHECK(hooked_plan("bf16", "16-mixed").comm_hook->name == "bf16");
  CHECK_FALSE(hooked_plan("none", "16-mixed").comm_hook.has_value());
  CHECK_THROWS_WITH(hooked_plan("powersgd", "16-mixed"), test::contains("loss scale"));
  CHECK_THROWS_WITH(hooked_plan("powersdg", "32-true"), test::contains("did you mean powersgd?"));
}

}  // namespace
}  // namespace cxtrain
