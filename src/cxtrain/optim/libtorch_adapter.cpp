#include "cxtrain/optim/libtorch_adapter.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>

#include <sstream>
#include <utility>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

class LibTorchAdapter final : public Optimizer {
 public:
  LibTorchAdapter(const LibTorchOptimizer& config, std::vector<ResolvedGroup> groups)
      : needs_closure_(config.needs_closure), groups_(std::move(groups)) {
    Groups lists;
    for (const ResolvedGroup& group : groups_) {
      std::vector<at::Tensor> tensors;
      for (const auto& parameter : group.parameters) tensors.push_back(parameter.tensor);
      lists.emplace_back(std::move(tensors));
    }
    if (needs_closure_ && lists.size() > 1) {
      throw ConfigError("optimizer", config.name + " takes one parameter group, the model has " +
                                         std::to_string(lists.size()));
    }
    optimizer_ = config.make(std::move(lists));
    set_lr_factor(1);
  }

  void step(const StepInputs& inputs) override {
    if (inputs.found_inf != nullptr && inputs.found_inf->item<float>() != 0) return;
    if (needs_closure_) {
      optimizer_->step(inputs.closure);
    } else {
      optimizer_->step();
    }
  }

  bool needs_closure() const override { return needs_closure_; }

  void set_lr_factor(double factor) override {
    factor_ = factor;
    auto& groups = optimizer_->param_groups();
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(groups_[i].lr * factor);
  }

  std::vector<double> learning_rates() const override {
    std::vector<double> rates;
    for (const ResolvedGroup& group : groups_) rates.push_back(group.lr * factor_);
    return rates;
  }

  // LibTorch keeps the state in one class per optimizer; its archive is the only common form.
  std::vector<NamedTensor> state() const override { return {}; }

 private:
  bool needs_closure_;
  std::vector<ResolvedGroup> groups_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  double factor_ = 1;
};

}  // namespace

std::unique_ptr<Optimizer> make_libtorch_optimizer(const LibTorchOptimizer& config,
                                                   std::vector<ResolvedGroup> groups) {
  return std::make_unique<LibTorchAdapter>(config, std::move(groups));
}

LibTorchOptimizer rmsprop(double lr, double alpha, double momentum, double weight_decay) {
  return {"rmsprop",
          lr,
          false,
          [=](Groups groups) {
            return std::make_unique<torch::optim::RMSprop>(
                std::move(groups),
                torch::optim::RMSpropOptions(lr).alpha(alpha).momentum(momentum).weight_decay(weight_decay));
          },
          {{"alpha", alpha}, {"momentum", momentum}, {"weight_decay", weight_decay}}};
}

LibTorchOptimizer adagrad(double lr, double lr_decay, double weight_decay) {
  return {"adagrad",
          lr,
          false,
          [=](Groups groups) {
            return std::make_unique<torch::optim::Adagrad>(
                std::move(groups),
                torch::optim::AdagradOptions(lr).lr_decay(lr_decay).weight_decay(weight_decay));
          },
          {{"lr_decay", lr_decay}, {"weight_decay", weight_decay}}};
}

LibTorchOptimizer lbfgs(double lr, std::int64_t max_iter, std::int64_t history_size) {
  return {"lbfgs",
          lr,
          true,
          [=](Groups groups) {
            return std::make_unique<torch::optim::LBFGS>(
                std::move(groups),
                torch::optim::LBFGSOptions(lr).max_iter(max_iter).history_size(history_size));
          },
          {{"max_iter", static_cast<double>(max_iter)}, {"history_size", static_cast<double>(history_size)}}};
}

}  // namespace cxtrain
