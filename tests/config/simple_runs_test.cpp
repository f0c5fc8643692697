#include "support/catch.h"

#include "config/resolve_support.h"

using namespace cxtrain;
using namespace cxtrain::testing;

/// The ways in which the users of `simple` ran it.
TEST_CASE("the example `simple` as its users ran it, on a machine with four GPUs", "[config]") {
  struct Row {
    const char *gpus, *visible, *strategy, *precision;
    const char *got_strategy, *launcher, *got_precision;
    std::vector<int> devices, physical;
  };
  const Row row =
      GENERATE(Row{"[2]", nullptr, nullptr, nullptr, "single", "none", "32-true", {2}, {2}},
               Row{"1", "1", nullptr, nullptr, "single", "none", "32-true", {0}, {1}},
               Row{"1", "2", nullptr, nullptr, "single", "none", "32-true", {0}, {2}},
               Row{"[0,2]", nullptr, nullptr, nullptr, "ddp", "subprocess", "32-true", {0, 2}, {0, 2}},
               Row{"[0,2]", nullptr, "ddp", nullptr, "ddp", "subprocess", "32-true", {0, 2}, {0, 2}},
               Row{"0,2", nullptr, nullptr, nullptr, "ddp", "subprocess", "32-true", {0, 2}, {0, 2}},
               Row{"[1]", nullptr, "ddp", nullptr, "ddp", "none", "32-true", {1}, {1}},
               Row{"1", nullptr, nullptr, "16", "single", "none", "16-mixed", {0}, {0}},
               Row{"1", nullptr, nullptr, "32", "single", "none", "32-true", {0}, {0}},
               Row{nullptr, nullptr, nullptr, nullptr, "single", "none", "32-true", {0}, {0}});
  CAPTURE(row.gpus ? row.gpus : "-", row.visible ? row.visible : "-", row.strategy ? row.strategy : "-");
  Options options;
  options.model = {"simple", {}};
  if (row.gpus) options.trainer.gpus = row.gpus;
  if (row.strategy) options.trainer.strategy = row.strategy;
  if (row.precision) options.trainer.precision = row.precision;
  Hardware hardware = machine(4);
  if (row.visible) hardware.env["CUDA_VISIBLE_DEVICES"] = row.visible;
  const Plan plan = resolve(options, hardware, {});
  INFO(all(plan.errors));
  REQUIRE(plan.ok());
  CHECK(plan.warnings.empty());
  CHECK(plan.strategy == row.got_strategy);
  CHECK(plan.launcher == row.launcher);
  CHECK(plan.precision == row.got_precision);
  CHECK(plan.devices == row.devices);
  REQUIRE(plan.ranks.size() == row.physical.size());
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    CHECK(plan.ranks[i].device == "cuda:" + std::to_string(row.devices[i]));
    CHECK(plan.ranks[i].gpu == row.physical[i]);
  }
}

TEST_CASE("the example `simple` with nothing at all, where there is no GPU", "[config]") {
  Options options;
  options.model = {"simple", {}};
  const Plan plan = resolve(options, machine(0), {});
  CHECK(plan.ok());
  CHECK(devices_of(plan) == std::vector<std::string>{"cpu"});
}
