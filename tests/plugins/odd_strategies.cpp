#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/strategy/strategy.h"

/// Strategies that are unlike those of the program, to be planned for and never made.
namespace {

using namespace cxtrain;

struct GridArgs {
  std::int64_t width = 2;

  void fields(auto&& field) { field("width", width, "columns of the grid"); }
};

template <class Args>
std::unique_ptr<Strategy> no_strategy(const Args&) {
  throw Error(ExitCode::failure, MessageCode::none, "this strategy is for plans only");
}

}  // namespace

CXTRAIN_PLUGIN("odd strategies", [](Registry& registry) {
  using Traits = StrategyTraits;
  registry.add("fsdp", "one process with a replica on each device, under a name of Lightning's",
               {.ranks = Traits::Ranks::one, .devices = Traits::Devices::replicas}, &no_strategy<NoArgs>);
  registry.add("whole", "spawned ranks of one device each, which are `dp` under mpirun",
               {.devices = Traits::Devices::one, .launcher = Traits::Launcher::spawn, .joined_as = "dp"},
               &no_strategy<NoArgs>);
  registry.add("grid", "a rank for every few devices, with a replica on each of them",
               {.devices = Traits::Devices::replicas}, &no_strategy<GridArgs>);
})
