#pragma once

#include <memory>
#include <vector>

#include "arguments.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// `ddp`: a replica of the model on every rank, gradients averaged over all of them. It does not care who
/// started the ranks.
std::unique_ptr<Strategy> make_ddp_strategy(const DdpArgs& args);

/// `StrategyTraits::memory`. CPU ranks of a node that divide the optimizer's work have one copy of the
/// parameters.
std::vector<RankMemory> ddp_memory(const Plan& plan, const ModelOutline& model);

}  // namespace cxtrain
