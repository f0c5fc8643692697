#include "cxtrain/plugin/plugin_abi.h"
#include "traits.h"
#include "zero_strategy.h"

CXTRAIN_PLUGIN("strategy zero", [](cxtrain::Registry& registry) {
  cxtrain::StrategyTraits traits = cxtrain::zero_traits();
  traits.memory = &cxtrain::zero_memory;
  traits.kept = &cxtrain::zero_kept;
  registry.add("zero", "a replica per rank; ranks divide optimizer state, gradients and parameters", traits,
               &cxtrain::make_zero_strategy);
})
