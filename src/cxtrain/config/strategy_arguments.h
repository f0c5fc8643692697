#pragma once

#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/arguments.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

/// The arguments that these options give to a strategy: its defaults, over them what the name of a preset
/// says (`ddp_find_unused_parameters_true`), over these `Options::strategy`. Appends to `errors` every value
/// that does not suit, and every argument that the strategy lacks; one of these that was given under the
/// older name `ddp.ARG`, and that another strategy has, goes to `warnings` instead. Nothing is said of a
/// strategy that is not among `strategies`, or of which nothing is known. Pure.
Arguments strategy_arguments(const std::string& strategy, const KnownStrategies& strategies,
                             const Options& options, std::vector<Problem>& errors,
                             std::vector<Problem>& warnings);

}  // namespace cxtrain
