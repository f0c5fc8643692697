#pragma once

#include <memory>

#include "arguments.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// `pipeline`: consecutive blocks of the model on different ranks, which work on different micro-batches at
/// the same time. The model is a `ChainModule`.
std::unique_ptr<Strategy> make_pipeline_strategy(const PipelineArgs& args);

}  // namespace cxtrain
