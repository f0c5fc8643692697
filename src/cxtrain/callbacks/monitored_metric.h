#pragma once

#include <string>

#include "cxtrain/callbacks/run.h"

namespace cxtrain {

/// Throws TrainingError: a callback follows a metric that nobody has logged. `follows`: "early stopping
/// monitors `val_loss`"; what has been logged is told as well.
[[noreturn]] void refuse_unlogged_metric(const Run& run, const std::string& follows);

}  // namespace cxtrain
