#include "cxtrain/plugin/plugin_abi.h"
#include "ddp_strategy.h"
#include "traits.h"

CXTRAIN_PLUGIN("strategy ddp", [](cxtrain::Registry& registry) {
  cxtrain::StrategyTraits traits = cxtrain::ddp_traits();
  traits.memory = &cxtrain::ddp_memory;
  registry.add("ddp", "a replica per rank, gradients averaged over all ranks", traits,
               &cxtrain::make_ddp_strategy);
})
