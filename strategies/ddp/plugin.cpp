#include "cxtrain/plugin/plugin_abi.h"
#include "ddp_strategy.h"
#include "traits.h"

CXTRAIN_PLUGIN("strategy ddp", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::Strategy>("ddp", "a replica per rank, gradients averaged over all ranks",
                                  cxtrain::ddp_arguments(), cxtrain::ddp_traits(),
                                  [](const cxtrain::Arguments& arguments) {
                                    return cxtrain::make_ddp_strategy(cxtrain::read_ddp_settings(arguments));
                                  });
})
