#pragma once

// What tests/rooms has to find: base/ is below cli/.
#include "cxtrain/cli/main.h"
