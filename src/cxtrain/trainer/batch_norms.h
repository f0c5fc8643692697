#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/batchnorm.h>

#include <vector>

#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// A batch norm somewhere in a model, of any dimension.
struct BatchNormLayer {
  torch::nn::Module* module;
  torch::nn::BatchNormOptions* options;

  /// Statistics as of a new layer.
  void reset_statistics() const;
  /// "running_mean" or "running_var"; undefined where it keeps none.
  at::Tensor running(const char* name) const;
};

/// Those of `model`, which keeps them alive: itself, and everything below it.
std::vector<BatchNormLayer> batch_norms(torch::nn::Module& model);

/// Makes each rank's running statistics those of all ranks' samples together: the mean of the means, weighted
/// by samples, and of the variances, plus the variance of the means (Chan et al. 1979). `samples`: what this
/// rank's are taken over; ranks without any are left out. Collective.
void pool_statistics(const std::vector<BatchNormLayer>& layers, double samples, World& world);

}  // namespace cxtrain
