#include "cxtrain/plugin/plugin_abi.h"
#include "pipeline_strategy.h"
#include "traits.h"

CXTRAIN_PLUGIN("strategy pipeline", [](cxtrain::Registry& registry) {
  registry.add("pipeline", "consecutive blocks of the model on different ranks", cxtrain::pipeline_traits(),
               &cxtrain::make_pipeline_strategy);
})
