#pragma once

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/relu.h>
#include <cxtrain/trainer/module.h>
#include <torch/nn/modules/linear.h>

/// What docs/split_a_model.md shows: a model whose two parts lie on two devices of each rank.
class TwoParts : public cxtrain::Module {
 public:
  TwoParts() {
    first_ = register_module("first", torch::nn::Linear(1, 512));
    second_ = register_module("second", torch::nn::Linear(512, 1));
  }

  void place_parts() override {
    first_->to(part_device(0));
    second_->to(part_device(1));
  }

  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
    const at::Tensor hidden = at::relu(first_(batch[0]));   // on the first device
    const at::Tensor output = second_(to_part(hidden, 1));  // on the second
    const at::Tensor loss = at::mse_loss(output, to_part(batch[1], 1));
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }
  cxtrain::Optimizers configure_optimizers() override { return cxtrain::Adam{.lr = 1e-3}; }

 private:
  torch::nn::Linear first_{nullptr}, second_{nullptr};
};
