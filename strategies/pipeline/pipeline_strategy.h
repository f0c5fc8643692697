#pragma once

#include <memory>
#include <vector>

#include "arguments.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/strategy/keep_ranges.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// `pipeline`: different ranks run consecutive blocks of a `ChainModule`, each rank on another micro-batch.
std::unique_ptr<Strategy> make_pipeline_strategy(const PipelineArgs& args);

/// `StrategyTraits::memory`. Throws ConfigError for a model that is no chain, or cannot be cut.
std::vector<RankMemory> pipeline_memory(const Plan& plan, const ModelOutline& model);

/// `StrategyTraits::kept`. Throws as `pipeline_memory` does.
KeptRanges pipeline_kept(const Plan& plan, const ModelOutline& model, int rank);

}  // namespace cxtrain
