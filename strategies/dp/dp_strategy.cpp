#include "cxtrain/plugin/plugin_abi.h"
#include "data_parallel.h"
#include "traits.h"

CXTRAIN_PLUGIN("strategy dp", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::Strategy>("dp", "one process, a replica and a thread for each device", {},
                                  cxtrain::dp_traits(),
                                  [](const cxtrain::Arguments&) { return cxtrain::make_dp_strategy(); });
})
