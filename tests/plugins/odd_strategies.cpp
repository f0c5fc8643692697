#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/strategy/strategy.h"

/// Strategies that are unlike those of the program, to be planned for and never made.
namespace {

using namespace cxtrain;

std::unique_ptr<Strategy> no_strategy(const Arguments&) {
  throw Error(ExitCode::failure, MessageCode::none, "this strategy is for plans only");
}

}  // namespace

CXTRAIN_PLUGIN("odd strategies", [](Registry& registry) {
  using Traits = StrategyTraits;
  registry.add<Strategy>("fsdp", "one process with a replica on each device, under a name of Lightning's", {},
                         {.ranks = Traits::Ranks::one, .devices = Traits::Devices::replicas}, no_strategy);
  registry.add<Strategy>(
      "whole", "spawned ranks of one device each, which are `dp` under mpirun", {},
      {.devices = Traits::Devices::one, .launcher = Traits::Launcher::spawn, .joined_as = "dp"}, no_strategy);
  registry.add<Strategy>("grid", "a rank for every few devices, with a replica on each of them",
                         {{"width", ArgumentSpec::Type::integer, "2", "columns of the grid", {}}},
                         {.devices = Traits::Devices::replicas}, no_strategy);
})
