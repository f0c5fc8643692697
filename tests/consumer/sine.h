#pragma once

#include <ATen/ops/linspace.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <cxtrain/data/tensor_dataset.h>
#include <cxtrain/trainer/module.h>
#include <torch/nn/modules/linear.h>

/// 4,096 points of a sine; the same on every rank, each of which reads its share of them.
class SineData : public cxtrain::DataModule {
 public:
  void setup(cxtrain::Stage, const cxtrain::DataOptions&) override {
    const at::Tensor x = at::linspace(-3, 3, 4096).unsqueeze(1);
    points_ = std::make_shared<cxtrain::TensorDataset>(std::vector{x, at::sin(x)});
  }
  cxtrain::Loaders train_dataloader() override { return {points_, 64, /*shuffle=*/true}; }
  cxtrain::Loaders val_dataloader() override { return {points_, 64}; }

 private:
  std::shared_ptr<const cxtrain::Dataset> points_;
};

class Sine : public cxtrain::Module {
 public:
  struct Args {
    std::int64_t hidden = 32;

    void fields(auto&& field) { field("hidden", hidden, "units of the hidden layer"); }
  };
  explicit Sine(const Args& args) {
    hidden_ = register_module("hidden", torch::nn::Linear(1, args.hidden));
    output_ = register_module("output", torch::nn::Linear(args.hidden, 1));
  }
  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
    const at::Tensor loss = error(batch);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }
  void validation_step(const cxtrain::Batch& batch, std::int64_t) override { log("val_loss", error(batch)); }
  cxtrain::Optimizers configure_optimizers() override { return cxtrain::AdamW{.lr = 1e-2}; }
  std::unique_ptr<cxtrain::DataModule> default_data() override { return std::make_unique<SineData>(); }

 private:
  at::Tensor error(const cxtrain::Batch& batch) {
    return at::mse_loss(output_(at::tanh(hidden_(batch[0]))), batch[1]);
  }
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};
