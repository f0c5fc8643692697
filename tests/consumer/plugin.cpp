#include <cxtrain/plugin/plugin_abi.h>

#include "sine.h"

CXTRAIN_PLUGIN("sine", [](cxtrain::Registry& registry) {
  registry.add<Sine>("sine", "a small MLP that learns a sine");
})
