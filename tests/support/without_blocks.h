#pragma once

#include <torch/nn/modules/linear.h>

#include "cxtrain/trainer/module.h"

namespace cxtrain::test {

/// A model whose layer is in no block.
struct WithoutBlocks : Module {
  StepOutput training_step(const Batch& batch, std::int64_t) override { return layer(batch[0]).mean(); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.01}; }
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 2));
};

}  // namespace cxtrain::test
