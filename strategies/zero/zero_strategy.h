#pragma once

#include <memory>

#include "arguments.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// `zero`: every rank runs the whole model, and keeps a shard of the optimizer's state (stage 1), of the
/// gradients (2) and of the parameters (3). After Rajbhandari et al. 2020, "ZeRO: Memory optimizations toward
/// training trillion parameter models".
std::unique_ptr<Strategy> make_zero_strategy(const ZeroArgs& args);

}  // namespace cxtrain
