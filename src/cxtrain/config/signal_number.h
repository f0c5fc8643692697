#pragma once

#include "cxtrain/config/values.h"

namespace cxtrain {

/// The system's number; 0 for none.
int signal_number(RequeueSignal signal);

}  // namespace cxtrain
