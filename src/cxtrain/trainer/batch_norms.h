#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/batchnorm.h>

#include <vector>

namespace cxtrain {

/// A batch norm somewhere in a model, of any dimension.
struct BatchNormLayer {
  torch::nn::Module* module;
  torch::nn::BatchNormOptions* options;

  /// Statistics as of a new layer.
  void reset_statistics() const;
};

/// Those below `model`, which keeps them alive.
std::vector<BatchNormLayer> batch_norms(const torch::nn::Module& model);

}  // namespace cxtrain
