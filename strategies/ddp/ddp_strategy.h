#pragma once

#include <memory>

#include "arguments.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// `ddp`: a replica of the model on every rank, gradients averaged over all of them. It does not care who
/// started the ranks.
std::unique_ptr<Strategy> make_ddp_strategy(const DdpArgs& args);

}  // namespace cxtrain
