#include <ATen/ops/full.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/norm.h>
#include <torch/nn/modules/batchnorm.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/setting.h"

/// Switches of the Trainer that are small enough not to have a file of their own.
namespace cxtrain {
namespace {

using test::Regression;
using test::Setting;
using test::ToyData;

/// Keeps the last step's gradients before anybody clips them.
class Watched : public Regression {
 public:
  void on_before_optimizer_step(OptimizerRef&) override {
    total = 0;
    for (const at::Tensor& parameter : parameters()) total += parameter.grad().square().sum().item<double>();
    total = std::sqrt(total);
    weight = first->weight.grad().abs().max().item<double>();
  }
  double total = 0, weight = 0;
};

TEST_CASE("track_grad_norm logs each parameter's norm and the total, unclipped, under Lightning's names") {
  Setting setting;
  setting.options.trainer.log_every_n_steps = 1;
  setting.options.trainer.gradient_clip_val = 1e-3;
  ToyData data(16, 8);
  Watched model;
  setting.options.trainer.track_grad_norm = 2;
  auto metrics = setting.fit(model, data).metrics;
  CHECK(metrics.at("grad_2.0_norm_total") == Catch::Approx(model.total).epsilon(1e-5));
  CHECK(metrics.count("grad_2.0_norm_first.weight") == 1);
  setting.options.trainer.track_grad_norm = std::numeric_limits<double>::infinity();
  metrics = setting.fit(model, data).metrics;
  CHECK(metrics.at("grad_inf_norm_first.weight") == Catch::Approx(model.weight).epsilon(1e-5));
}

/// A loss that is NaN at one step, or a learning rate that makes a parameter infinite.
class Sick : public Regression {
 public:
  explicit Sick(bool loss, OptimizerSetup setup = {}) : Regression(std::move(setup)), sick_loss_(loss) {}
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    const at::Tensor loss = Regression::training_step(batch, idx).loss;
    return sick_loss_ && idx == 1 ? loss * std::numeric_limits<double>::quiet_NaN() : loss;
  }

 private:
  bool sick_loss_;
};

/// One of its parameters becomes infinite, which no loss has shown yet.
class Broken : public Regression {
 public:
  void on_before_optimizer_step(OptimizerRef&) override {
    second->bias.mutable_grad()[0] = std::numeric_limits<float>::infinity();
  }
};

TEST_CASE("terminate_on_nan ends training at a loss or a parameter that is not finite, and names it") {
  Setting setting;
  ToyData data(32, 8);
  Sick loss(true), parameter(false, {.optimizer = Sgd{.lr = 1e38}});
  CHECK(setting.fit(loss, data).global_step == 4);
  setting.options.trainer.terminate_on_nan = true;
  Sick again(true);
  CHECK_THAT(test::error_of([&] { setting.fit(again, data); }),
             test::contains(test::code(MessageCode::not_finite)) && test::contains("the loss"));
  CHECK_THAT(test::error_of([&] { setting.fit(parameter, data); }),
             test::contains(test::code(MessageCode::not_finite)));
  Broken broken;
  CHECK_THAT(test::error_of([&] { setting.fit(broken, data); }),
             test::contains(test::code(MessageCode::not_finite)) && test::contains("second.bias"));
}

/// Gives another dataset each time it is asked.
class GrowingData : public ToyData {
 public:
  GrowingData() : ToyData(16, 8) {}
  Loaders train_dataloader() override {
    ++asked;
    return ToyData(8 * (asked + 1), 8).train_dataloader();
  }
  int asked = 0;
};

TEST_CASE("reload_dataloaders_every_n_epochs asks for the data again, and goes by its new length") {
  struct Row {
    std::int64_t every;
    int asked;
    std::int64_t steps;
  };
  const Row row = GENERATE(Row{0, 1, 8}, Row{1, 4, 2 + 3 + 4 + 5}, Row{2, 2, 2 + 2 + 3 + 3});
  Setting setting;
  setting.options.trainer.max_epochs = 4;
  setting.options.trainer.reload_dataloaders_every_n_epochs = row.every;
  GrowingData data;
  Regression model;
  const RunSummary run = setting.fit(model, data);
  CAPTURE(row.every);
  CHECK(data.asked == row.asked);
  CHECK(run.global_step == row.steps);
}

/// Notes in which mode it evaluates.
class Evaluated : public Regression {
 public:
  void validation_step(const Batch& batch, std::int64_t idx) override {
    const at::Tensor made = first->forward(batch[0]);
    inference = made.is_inference();
    gradient = made.requires_grad();
    Regression::validation_step(batch, idx);
  }
  bool inference = false, gradient = true;
};

TEST_CASE("evaluation runs in inference mode, or only without gradients") {
  const bool inference_mode = GENERATE(true, false);
  Setting setting;
  setting.options.trainer.inference_mode = inference_mode;
  ToyData data(16, 8, 16);
  Evaluated model;
  const RunSummary run = setting.fit(model, data);
  CHECK(model.inference == inference_mode);
  CHECK_FALSE(model.gradient);
  CHECK(run.metrics.count("val_loss") == 1);
}

/// Notes its parameters after each epoch, and the learning rate.
class Averaged : public Regression {
 public:
  Averaged() : Regression({.optimizer = Sgd{.lr = 0.1}, .schedule = ExponentialSchedule{.gamma = 0.5}}) {
    norm = register_module("norm", torch::nn::BatchNorm1d(6));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    inputs.push_back(batch[0]);
    const at::Tensor hidden = at::tanh(first->forward(norm->forward(batch[0])));
    return torch::nn::functional::mse_loss(second->forward(hidden), batch[1]);
  }
  void on_train_epoch_end() override {
    after_epoch.push_back(test::flat_parameters(*this));
    inputs.clear();
  }
  torch::nn::BatchNorm1d norm{nullptr};
  std::vector<at::Tensor> after_epoch, inputs;
};

TEST_CASE(
    "stochastic_weight_avg ends with the mean over the last fifth of the epochs, and fresh batch norms") {
  Setting setting;
  setting.options.trainer.stochastic_weight_avg = true;
  setting.options.trainer.max_epochs = 10;
  ToyData data(32, 8);
  Averaged model;
  setting.fit(model, data);
  REQUIRE(model.after_epoch.size() == 10);
  const at::Tensor mean = (model.after_epoch[8] + model.after_epoch[9]) / 2;
  CHECK(test::flat_parameters(model).allclose(mean, 1e-5, 1e-6));
  // After the last epoch came one pass over the data: the mean of its batches' means.
  REQUIRE(model.inputs.size() == 4);
  at::Tensor expected = at::zeros({6});
  for (const at::Tensor& batch : model.inputs) expected += batch.mean(0) / 4;
  CHECK(model.norm->running_mean.allclose(expected, 1e-4, 1e-5));
  CHECK(model.norm->options.momentum() == 0.1);

  setting.options.trainer.max_epochs = -1;
  setting.options.trainer.max_steps = 3;
  CHECK_THROWS_WITH(setting.fit(model, data), test::contains("give --max_epochs"));
}

TEST_CASE("a trainer can be used again, with the user's callbacks and without those of the last run") {
  struct Counter : Callback {
    explicit Counter(int& count) : count_(count) {}
    void on_fit_start(Run&) override { ++count_; }
    int& count_;
  };
  Setting setting;
  setting.options.trainer.enable_progress_bar = true;
  setting.options.trainer.stochastic_weight_avg = true;
  setting.options.trainer.max_epochs = 2;
  ToyData data(16, 8, 8);
  Regression model;
  int fits = 0;
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback(std::make_unique<Counter>(fits));
  trainer.fit(model, data);
  trainer.fit(model, data);
  trainer.test(model, data);
  CHECK(fits == 2);
}

}  // namespace
}  // namespace cxtrain
