#pragma once

#include <memory>
#include <vector>

#include "cxtrain/optim/optimizer.h"
#include "cxtrain/optim/parameter_groups.h"

namespace cxtrain {

/// An optimizer of LibTorch's behind our interface. It reads `found_inf` on the host, which the fused ones do
/// not.
std::unique_ptr<Optimizer> make_libtorch_optimizer(const LibTorchOptimizer& config,
                                                   std::vector<ResolvedGroup> groups);

}  // namespace cxtrain
