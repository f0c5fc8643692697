#pragma once

#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/options.h"
#include "cxtrain/optim/setup.h"

namespace cxtrain {

/// What `--optimizer`, `--optimizer.*`, `--lr_scheduler` and `--lr_scheduler.*` ask for, laid over the
/// model's own setup: a name replaces the optimizer or schedule by that one with its defaults, an argument
/// without a name changes the model's. Appends to `problems` what it cannot do, naming what there is.
OptimizerSetup apply_overrides(OptimizerSetup setup, const NamedOptions& optimizer,
                               const NamedOptions& lr_scheduler, std::vector<Problem>& problems);

/// What can be said of the same options before there is a model: names, and arguments that the named
/// component does not take or, without a name, that none takes.
void check_overrides(const NamedOptions& optimizer, const NamedOptions& lr_scheduler,
                     std::vector<Problem>& problems);

/// The setup's learning rate, and the same setup with another; groups keep their ratio.
double learning_rate(const OptimizerSetup& setup);
OptimizerSetup with_learning_rate(OptimizerSetup setup, double lr);

}  // namespace cxtrain
