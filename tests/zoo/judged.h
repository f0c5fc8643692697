#pragma once

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <cxtrain/metrics/classification.h>
#include <cxtrain/trainer/module.h>
#include <torch/nn/modules/linear.h>

/// What docs/metrics.md shows of C++: each of its blocks stands here as it is, and is compiled.

class Judged : public cxtrain::Module {
 public:
  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
    const at::Tensor scores = net_->forward(batch[0].flatten(1));
    accuracy_.update(scores, batch[1]);
    log("train_acc", accuracy_, {.on_step = true, .on_epoch = true});
    return at::cross_entropy_loss(scores, batch[1]);
  }
  void validation_step(const cxtrain::Batch& batch, std::int64_t) override {
    const at::Tensor scores = net_->forward(batch[0].flatten(1));
    accuracy_.update(scores, batch[1]);
    matrix_.update(scores, batch[1]);
    log("val_acc", accuracy_, {.prog_bar = true});
  }
  void on_validation_epoch_end() override {
    const at::Tensor matrix = matrix_.compute();  // of all ranks, int64 [2, 2]
    log("val_missed", matrix[1][0]);
  }
  cxtrain::Optimizers configure_optimizers() override { return cxtrain::AdamW{}; }

 private:
  torch::nn::Linear net_ = register_module("net", torch::nn::Linear(3 * 8 * 8, 2));
  cxtrain::Accuracy& accuracy_ = register_metric<cxtrain::Accuracy>("accuracy", {.classes = 2});
  cxtrain::ConfusionMatrix& matrix_ = register_metric<cxtrain::ConfusionMatrix>("matrix", {.classes = 2});
};

/// The share of predictions that are 0.
class ShareOfZeros : public cxtrain::Metric {
 public:
  void update(const at::Tensor& preds, const at::Tensor&) override {
    const Updating updating(*this);  // no gradients, no autocast
    zeros_ += here(preds).eq(0).sum();
    all_ += preds.numel();
  }
  at::Tensor compute() const override { return zeros_ / all_; }

 private:
  at::Tensor& zeros_ = add_state("zeros", at::zeros({}, at::kDouble));  // a sum, unless a Reduce is given
  at::Tensor& all_ = add_state("all", at::zeros({}, at::kDouble));
};
