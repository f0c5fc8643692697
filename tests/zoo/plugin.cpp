#include <cxtrain/plugin/plugin_abi.h>

#include "extras.h"

CXTRAIN_PLUGIN("resnet", register_zoo)
