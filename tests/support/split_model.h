#pragma once

#include "support/toy_models.h"

namespace cxtrain::test {

/// The toy regression, its second layer on a device of its own.
struct SplitRegression : Regression {
  void place_parts() override {
    first->to(part_device(0));
    second->to(part_device(1));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    ++training_steps;
    const at::Tensor between = to_part(at::tanh(first->forward(batch[0])), 1);
    const at::Tensor loss = torch::nn::functional::mse_loss(second->forward(between), to_part(batch[1], 1));
    log("train_loss", loss);
    return loss;
  }
};

}  // namespace cxtrain::test
