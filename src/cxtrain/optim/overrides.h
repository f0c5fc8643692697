#pragma once

#include <map>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/options.h"
#include "cxtrain/optim/setup.h"

namespace cxtrain {

/// What `--optimizer`, `--optimizer.*`, `--lr_scheduler` and `--lr_scheduler.*` ask for, laid over the
/// model's own setup: a name replaces the optimizer or schedule by that one with its defaults, an argument
/// without a name changes the model's. Appends to `problems` what it cannot do, naming what there is.
OptimizerSetup apply_overrides(OptimizerSetup own, const NamedOptions& optimizer,
                               const NamedOptions& lr_scheduler, std::vector<Problem>& problems);

/// The names that the two options take, for --help.
std::vector<std::string> optimizer_names();
std::vector<std::string> schedule_names();

}  // namespace cxtrain
