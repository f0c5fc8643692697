#include "cxtrain/plugin/plugin_abi.h"
#include "ddp_strategy.h"
#include "traits.h"

CXTRAIN_PLUGIN("strategy ddp", [](cxtrain::Registry& registry) {
  registry.add("ddp", "a replica per rank, gradients averaged over all ranks", cxtrain::ddp_traits(),
               &cxtrain::make_ddp_strategy);
})
