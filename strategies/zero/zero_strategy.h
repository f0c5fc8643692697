#pragma once

#include <memory>
#include <vector>

#include "arguments.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/strategy/keep_ranges.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// `zero`: every rank runs the whole model, and keeps a shard of the optimizer's state (stage 1), of the
/// gradients (2) and of the parameters (3). After Rajbhandari et al. 2020, "ZeRO: Memory optimizations toward
/// training trillion parameter models".
std::unique_ptr<Strategy> make_zero_strategy(const ZeroArgs& args);

/// `StrategyTraits::memory`. CPU ranks of one node have one copy of the parameters.
std::vector<RankMemory> zero_memory(const Plan& plan, const ModelOutline& model);

/// `StrategyTraits::kept`.
KeptRanges zero_kept(const Plan& plan, const ModelOutline& model, int rank);

}  // namespace cxtrain
