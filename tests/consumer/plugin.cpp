#include <cxtrain/plugin/plugin_abi.h>

#include "sine.h"

CXTRAIN_REGISTER(Sine, "sine", "a small MLP that learns a sine");
CXTRAIN_PLUGIN("sine")
