#pragma once

#include <ATen/ops/relu.h>
#include <torch/nn/modules/batchnorm.h>

#include "support/toy_models.h"

namespace cxtrain::test {

/// A user's model with a batch norm, which knows nothing of ranks.
struct Normalised : Regression {
  Normalised() : Regression({.optimizer = Sgd{.lr = 0.05}}) {
    norm = register_module("norm", torch::nn::BatchNorm1d(16));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return torch::nn::functional::mse_loss(second->forward(at::relu(norm->forward(first->forward(batch[0])))),
                                           batch[1]);
  }
  torch::nn::BatchNorm1d norm{nullptr};
};

}  // namespace cxtrain::test
