#pragma once

#include <vector>

#include "cxtrain/config/options.h"

/// Options that stand for others. Pure.
namespace cxtrain {

/// The options with `fast_dev_run`, `barebones` and `quiet` written out as what they mean: batches, steps,
/// loggers, output. Those three stay as they are, for messages.
Options expand_presets(Options options);

/// The callbacks that the options ask for, in the order in which their hooks are called: a timer for
/// `max_time`, those that `callbacks` names, the memory log, the progress bar.
std::vector<NamedOptions> callbacks_asked_for(const Options& asked);

/// The loggers that the options ask for: the run's files unless `logger` is false, and those that `loggers`
/// names.
std::vector<NamedOptions> loggers_asked_for(const Options& asked);

}  // namespace cxtrain
