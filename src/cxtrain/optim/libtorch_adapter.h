#pragma once

#include <memory>
#include <vector>

#include "cxtrain/optim/optimizer.h"

namespace cxtrain {

/// Returns LibTorch's optimizer that a description stands for.
LibTorchOptimizer libtorch_optimizer(const Rmsprop& config);
LibTorchOptimizer libtorch_optimizer(const Adagrad& config);
LibTorchOptimizer libtorch_optimizer(const Lbfgs& config);
inline const LibTorchOptimizer& libtorch_optimizer(const LibTorchOptimizer& config) { return config; }

/// An optimizer of LibTorch's behind our interface, for pieces that are whole parameters. It reads
/// `found_inf` on the host, which the fused ones do not. `sets_decay`: the optimizer takes the weight decay
/// of each group. Throws ConfigError if a piece is a part of a parameter.
std::unique_ptr<Optimizer> make_libtorch_optimizer(const LibTorchOptimizer& config,
                                                   const std::vector<ResolvedGroup>& groups,
                                                   std::span<const Piece> pieces, bool sets_decay);

}  // namespace cxtrain
