#include "../ddp/ddp_strategy.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "traits.h"

// Spawned ranks train as any others do; who spawns them is the launcher's business (launchers/launcher.h).
CXTRAIN_PLUGIN("strategy ddp_spawn", [](cxtrain::Registry& registry) {
  cxtrain::StrategyTraits traits = cxtrain::ddp_spawn_traits();
  traits.memory = &cxtrain::ddp_memory;
  registry.add("ddp_spawn", "ddp on ranks that the program itself spawns", traits,
               &cxtrain::make_ddp_strategy);
})
