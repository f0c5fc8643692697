#pragma once

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/trainer/chain_module.h"
#include "cxtrain/trainer/trainer.h"

/// Small models and data for tests of the trainer.
namespace cxtrain::test {

/// A two-layer network that learns a fixed random function. Counts how often it was called.
class Regression : public ChainModule {
 public:
  explicit Regression(OptimizerSetup setup = {.optimizer = AdamW{.lr = 0.01}}, std::int64_t hidden = 16)
      : setup_(std::move(setup)) {
    at::manual_seed(1);
    first = add_block("first", torch::nn::Linear(6, hidden));
    add_block("tanh", torch::nn::Tanh());
    second = add_block("second", torch::nn::Linear(hidden, 2));
  }
  at::Tensor loss(const Batch& batch) {
    return torch::nn::functional::mse_loss(run_blocks(batch).tensor(), batch[1]);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    ++training_steps;
    at::Tensor value = loss(batch);
    log("train_loss", value, {.prog_bar = true});
    return value;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    ++validation_steps;
    log("val_loss", loss(batch));
    log("val_mean", batch[0].mean());
  }
  void test_step(const Batch& batch, std::int64_t) override { log("test_loss", loss(batch)); }
  at::Tensor predict_step(const Batch& batch, std::int64_t) override { return run_blocks(batch).tensor(); }
  Optimizers configure_optimizers() override { return setup_; }

  torch::nn::Linear first{nullptr}, second{nullptr};
  int training_steps = 0, validation_steps = 0;

 private:
  OptimizerSetup setup_;
};

/// A linear model whose gradients are whole numbers over powers of two, and so exact in float32.
class Exact : public ChainModule {
 public:
  Exact() {
    at::manual_seed(2);
    layer = add_block("layer", torch::nn::Linear(torch::nn::LinearOptions(8, 4)));
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) parameter.copy_(at::randint(-8, 8, parameter.sizes()));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return run_blocks(batch).tensor().sum().div(static_cast<double>(batch.size));
  }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.5}; }

  torch::nn::Linear layer{nullptr};
};

class ToyData : public DataModule {
 public:
  ToyData(std::int64_t samples, std::int64_t batch_size, std::int64_t val_samples = 0,
          bool whole_numbers = false)
      : batch_size_(batch_size) {
    at::manual_seed(3);
    const auto inputs = [&](std::int64_t n) {
      return whole_numbers ? at::randint(-4, 5, {n, 8}).to(at::kFloat) : at::randn({n, 6});
    };
    train_ =
        std::make_shared<TensorDataset>(std::vector<at::Tensor>{inputs(samples), at::randn({samples, 2})});
    if (val_samples > 0) {
      val_ = std::make_shared<TensorDataset>(
          std::vector<at::Tensor>{inputs(val_samples), at::randn({val_samples, 2})});
    }
  }
  void setup(Stage, const DataOptions&) override { ++setups; }
  Loaders train_dataloader() override { return {train_, batch_size_, /*shuffle=*/true}; }
  Loaders val_dataloader() override { return {val_, batch_size_}; }
  Loaders test_dataloader() override { return {val_, batch_size_}; }
  Loaders predict_dataloader() override { return {val_, batch_size_}; }

  int setups = 0;

 private:
  std::int64_t batch_size_;
  std::shared_ptr<TensorDataset> train_, val_;
};

/// Options that print nothing and write below `root`.
inline Options quiet(const std::string& root) {
  Options options;
  options.trainer.default_root_dir = root;
  options.trainer.enable_progress_bar = false;
  options.trainer.enable_model_summary = false;
  options.trainer.num_sanity_val_steps = 0;
  options.trainer.max_epochs = 1;
  return options;
}

/// All parameters as one double vector.
inline at::Tensor flat_parameters(const Module& module) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : module.parameters())
    parts.push_back(parameter.detach().reshape({-1}).to(at::kDouble));
  return at::cat(parts);
}

}  // namespace cxtrain::test
