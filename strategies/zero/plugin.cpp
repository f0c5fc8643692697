#include "cxtrain/plugin/plugin_abi.h"
#include "traits.h"
#include "zero_strategy.h"

CXTRAIN_PLUGIN("strategy zero", [](cxtrain::Registry& registry) {
  registry.add("zero", "a replica per rank; ranks divide optimizer state, gradients and parameters",
               cxtrain::zero_traits(), &cxtrain::make_zero_strategy);
})
