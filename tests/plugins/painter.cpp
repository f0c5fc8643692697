#include <ATen/ops/cross_entropy_loss.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/module.h"

/// A model that tells two classes of pictures apart, of any size.
namespace {

using namespace cxtrain;

class Painter : public Module {
 public:
  Painter() {
    net_ = register_module("net",
                           torch::nn::Sequential(torch::nn::Conv2d(3, 4, 3), torch::nn::AdaptiveAvgPool2d(1),
                                                 torch::nn::Flatten(), torch::nn::Linear(4, 2)));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = at::cross_entropy_loss(net_->forward(batch[0]), batch[1]);
    log("train_loss", loss);
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override { right("val_acc", batch); }
  void test_step(const Batch& batch, std::int64_t) override { right("test_acc", batch); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1, .momentum = 0.9}; }

 private:
  void right(const char* name, const Batch& batch) {
    log(name, net_->forward(batch[0]).argmax(1).eq(batch[1]).to(at::kFloat).mean());
  }
  torch::nn::Sequential net_;
};

}  // namespace

CXTRAIN_PLUGIN("painter",
               [](Registry& registry) { registry.add<Painter>("painter", "two classes of pictures"); })
