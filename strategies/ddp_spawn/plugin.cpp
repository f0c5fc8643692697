#include "../ddp/ddp_strategy.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "traits.h"

// Spawned ranks train as any others do; who spawns them is the launcher's business (launchers/spawn.h).
CXTRAIN_PLUGIN("strategy ddp_spawn", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::Strategy>("ddp_spawn", "ddp on ranks that the program itself spawns",
                                  cxtrain::ddp_arguments(), cxtrain::ddp_spawn_traits(),
                                  [](const cxtrain::Arguments& arguments) {
                                    return cxtrain::make_ddp_strategy(cxtrain::read_ddp_settings(arguments));
                                  });
})
