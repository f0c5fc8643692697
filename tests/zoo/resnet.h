#pragma once

#include <ATen/ops/relu.h>
#include <cxtrain/trainer/module.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "blobs.h"

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(std::int64_t channels) {
    const auto conv = [&] {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 3).padding(1).bias(false));
    };
    conv1_ = register_module("conv1", conv());
    norm1_ = register_module("norm1", torch::nn::BatchNorm2d(channels));
    conv2_ = register_module("conv2", conv());
    norm2_ = register_module("norm2", torch::nn::BatchNorm2d(channels));
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::relu(x + norm2_(conv2_(at::relu(norm1_(conv1_(x))))));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d norm1_{nullptr}, norm2_{nullptr};
};
TORCH_MODULE(Block);

/// A small ResNet as one fine-tunes it: its backbone is frozen, statistics included, until `unfreeze_epoch`.
/// Batches whose number `skip_every` divides have no loss.
class ResNet : public cxtrain::Module {
 public:
  struct Args {
    std::int64_t channels = 8, unfreeze_epoch = 1, skip_every = 0;

    void fields(auto&& field) {
      field("channels", channels, "of all layers");
      field("unfreeze_epoch", unfreeze_epoch, "from which on all of it trains");
      field("skip_every", skip_every, "batches; 0: no batch is skipped");
    }
  };
  explicit ResNet(const Args& args) : args_(args) {
    stem_ =
        register_module("stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, args.channels, 3).padding(1)));
    blocks_ = register_module("blocks", torch::nn::Sequential(Block(args.channels), Block(args.channels)));
    head_ = register_module("head", torch::nn::Linear(args.channels, 2));
    set_backbone(false);
  }

  void on_train_epoch_start() override {
    if (current_epoch() == args_.unfreeze_epoch) set_backbone(true);
    if (current_epoch() < args_.unfreeze_epoch) blocks_->eval();
  }
  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t batch_idx) override {
    if (args_.skip_every > 0 && batch_idx % args_.skip_every == 0) return {};
    const at::Tensor loss = torch::nn::functional::cross_entropy(classify(batch[0]), batch[1]);
    log("train_loss", loss, {.prog_bar = true});
    log("blocks_train", blocks_->is_training() ? 1.0 : 0.0,
        {.on_step = false, .on_epoch = true, .reduce_fx = cxtrain::ReduceFx::max});
    return loss;
  }
  void validation_step(const cxtrain::Batch& batch, std::int64_t) override {
    const at::Tensor scores = classify(batch[0]);
    log_dict({{"val_loss", torch::nn::functional::cross_entropy(scores, batch[1])},
              {"val_acc", scores.argmax(1).eq(batch[1]).to(at::kFloat).mean()}},
             {.prog_bar = true});
    log("val_samples", static_cast<double>(batch.size), {.reduce_fx = cxtrain::ReduceFx::sum});
  }
  void test_step(const cxtrain::Batch& batch, std::int64_t) override {
    log("test_acc", classify(batch[0]).argmax(1).eq(batch[1]).to(at::kFloat).mean());
  }
  at::Tensor predict_step(const cxtrain::Batch& batch, std::int64_t) override {
    return classify(batch[0]).argmax(1);
  }
  void on_train_epoch_end() override { log("epoch_number", static_cast<double>(current_epoch())); }

  cxtrain::Optimizers configure_optimizers() override {
    return cxtrain::Sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true};
  }
  std::unique_ptr<cxtrain::DataModule> default_data() override { return std::make_unique<BlobData>(); }

 private:
  at::Tensor classify(const at::Tensor& images) {
    return head_(blocks_->forward(at::relu(stem_(images))).mean({2, 3}));
  }
  void set_backbone(bool trained) {
    for (at::Tensor& parameter : stem_->parameters()) parameter.set_requires_grad(trained);
    for (at::Tensor& parameter : blocks_->parameters()) parameter.set_requires_grad(trained);
    blocks_->train(trained);
  }

  Args args_;
  torch::nn::Conv2d stem_{nullptr};
  torch::nn::Sequential blocks_{nullptr};
  torch::nn::Linear head_{nullptr};
};
