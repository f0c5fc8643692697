#pragma once

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <cxtrain/callbacks/early_stopping.h>
#include <cxtrain/cli/main.h>
#include <cxtrain/metrics/classification.h>
#include <cxtrain/trainer/module.h>
#include <torch/nn/modules/linear.h>

#include "blobs.h"

/// What docs/from_lightning.md shows of C++: each of its blocks stands here as it is, and is compiled.

class LitClassifier : public cxtrain::Module {
 public:
  struct Args {
    std::int64_t hidden = 64;
    double lr = 1e-3;

    void fields(auto&& field) {
      field("hidden", hidden, "width of the hidden layer");
      field("lr", lr, "learning rate");
    }
  };
  explicit LitClassifier(const Args& args) : args_(args) {
    save_hyperparameters(args_);
    l1_ = register_module("l1", torch::nn::Linear(3 * 8 * 8, args_.hidden));
    l2_ = register_module("l2", torch::nn::Linear(args_.hidden, 2));
  }

  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t batch_idx) override {
    const at::Tensor loss = at::cross_entropy_loss(forward(batch[0]), batch[1]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const cxtrain::Batch& batch, std::int64_t batch_idx) override {
    const at::Tensor logits = forward(batch[0]);
    log("val_loss", at::cross_entropy_loss(logits, batch[1]), {.prog_bar = true});
    accuracy_.update(logits, batch[1]);
    log("val_acc", accuracy_);
  }

  at::Tensor predict_step(const cxtrain::Batch& batch, std::int64_t batch_idx) override {
    return at::softmax(forward(batch[0]), 1);
  }

  cxtrain::Optimizers configure_optimizers() override {
    return cxtrain::AdamW{.lr = args_.lr}.with(cxtrain::CosineSchedule{.warmup = 100});
  }

  const at::Tensor& weights() const { return l1_->weight; }

 private:
  at::Tensor forward(const at::Tensor& x) { return l2_(at::relu(l1_(x.flatten(1)))); }

  Args args_;
  torch::nn::Linear l1_{nullptr}, l2_{nullptr};
  cxtrain::Accuracy& accuracy_ = register_metric<cxtrain::Accuracy>("accuracy", {.classes = 2});
};

class BlobsData : public cxtrain::DataModule {
 public:
  void setup(cxtrain::Stage, const cxtrain::DataOptions& options) override {
    train_ = std::make_shared<Blobs>(160, /*augment=*/true);
    val_ = std::make_shared<Blobs>(40, /*augment=*/false);
  }
  cxtrain::Loaders train_dataloader() override { return {train_, 32, /*shuffle=*/true}; }
  cxtrain::Loaders val_dataloader() override { return {val_, 32}; }

 private:
  std::shared_ptr<const cxtrain::Dataset> train_, val_;
};

class PrintLoss : public cxtrain::Callback {
  void on_validation_end(cxtrain::Run& run) override {
    if (run.rank() == 0) cxtrain::log_info("val_loss " + std::to_string(run.metric("val_loss").value()));
  }
};

class ShowWeights : public cxtrain::Callback {
  void on_train_epoch_end(cxtrain::Run& run) override {
    run.loggers().log_image("weights", run.module<LitClassifier>().weights().sigmoid());
  }
};

inline int ported_main(int argc, char** argv) {
  const cxtrain::TrainerOptions defaults{
      .devices = 4, .precision = "bf16-mixed", .max_epochs = 10, .gradient_clip_val = 1.0};
  return cxtrain::run(argc, argv, {.trainer = defaults}, [](cxtrain::Trainer& trainer) {
    LitClassifier model({.hidden = 64});
    BlobsData data;
    trainer.add_callback<PrintLoss>();
    trainer.fit(model, data);
    trainer.validate(model, data, {.ckpt_path = "best"});
  });
}
