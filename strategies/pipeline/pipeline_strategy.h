#pragma once

#include <memory>

#include "arguments.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// `pipeline`: different ranks run consecutive blocks of a `ChainModule`, each rank on another micro-batch.
std::unique_ptr<Strategy> make_pipeline_strategy(const PipelineArgs& args);

}  // namespace cxtrain
