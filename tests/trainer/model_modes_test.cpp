#include <ATen/ops/equal.h>
#include <torch/nn/modules/batchnorm.h>

#include <filesystem>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/setting.h"

/// What a user does to single layers and parameters stays as it is.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

struct ModeSetting : test::Setting {
  RunSummary fit(Module& model) {
    ToyData data(32, 8, 16);
    Trainer trainer(world, options);
    trainer.set_replica_factory(make_replica);
    return trainer.fit(model, data);
  }
  std::function<std::unique_ptr<Module>()> make_replica;
};

TEST_CASE("layers put into evaluation mode stay in it after a validation") {
  class FrozenNorm : public Regression {
   public:
    FrozenNorm() { norm = register_module("norm", torch::nn::BatchNorm1d(6)); }
    void on_train_start() override { norm->eval(); }
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      modes.push_back(norm->is_training());
      training.push_back(is_training());
      static_cast<void>(norm->forward(batch[0]));
      return Regression::training_step(batch, idx);
    }
    void validation_step(const Batch&, std::int64_t) override { validated_in_training |= is_training(); }
    torch::nn::BatchNorm1d norm{nullptr};
    std::vector<bool> modes, training;
    bool validated_in_training = false;
  };
  ModeSetting setting;
  setting.options.trainer.val_check_interval = BatchLimit{0.5};
  setting.options.trainer.max_epochs = 2;
  setting.options.trainer.num_sanity_val_steps = 1;
  FrozenNorm model;
  setting.fit(model);
  CHECK(model.modes == std::vector<bool>(8, false));
  CHECK(model.training == std::vector<bool>(8, true));
  CHECK_FALSE(model.validated_in_training);
}

/// Trains the second layer from the start, the first from epoch 1 on.
class Unfreezing : public Regression {
 public:
  explicit Unfreezing(OptimizerSetup setup) : Regression(std::move(setup)) {
    for (at::Tensor& parameter : first->parameters()) parameter.set_requires_grad(false);
  }
  void on_train_epoch_start() override {
    if (current_epoch() != 1) return;
    untouched = at::equal(first->weight, start);
    for (at::Tensor& parameter : first->parameters()) parameter.set_requires_grad(true);
  }
  void on_fit_start() override { start = first->weight.detach().clone(); }
  at::Tensor start;
  bool untouched = false;
};

TEST_CASE("parameters that are frozen at first train once they are unfrozen") {
  const auto optimizer = GENERATE(as<OptimizerConfig>{}, Sgd{.lr = 0.1}, Sgd{.lr = 0.1, .momentum = 0.9},
                                  AdamW{.lr = 0.01}, Rmsprop{});
  const std::string strategy = GENERATE("single", "dp"), precision = GENERATE("32-true", "16");
  ModeSetting setting;
  setting.options.trainer.max_epochs = 2;
  setting.options.trainer.strategy = strategy;
  if (precision == "16") {
    setting.options.trainer.precision = "16-mixed";
    setting.options.trainer.amp_level = "O2";
  }
  if (strategy == "dp") {
    setting.options.trainer.devices = "2";
    setting.options.trainer.accelerator = "cpu";
  }
  setting.make_replica = [&] { return std::make_unique<Unfreezing>(OptimizerSetup{.optimizer = optimizer}); };
  Unfreezing model({.optimizer = optimizer});
  if (precision == "16" && strategy == "dp") {
    CHECK_THROWS_WITH(setting.fit(model), test::contains("amp_level"));
    return;
  }
  setting.fit(model);
  CHECK(model.untouched);
  CHECK_FALSE(at::equal(model.first->weight.to(at::kFloat), model.start.to(at::kFloat)));
}

TEST_CASE("a 16-bit precision leaves indices, counts and masks as they are") {
  class Buffers : public Regression {
   public:
    Buffers() {
      counts = register_buffer("counts", at::full({1}, 70001, at::kLong));
      mask = register_buffer("mask", at::ones({3}, at::kBool));
      scale = register_buffer("scale", at::ones({1}));
    }
    at::Tensor counts, mask, scale;
  };
  ModeSetting setting;
  const auto [precision, level] =
      GENERATE(table<std::string, std::string>({{"bf16-true", ""}, {"16", "O2"}}));
  setting.options.trainer.precision = precision;
  if (!level.empty()) setting.options.trainer.amp_level = level;
  Buffers model;
  setting.fit(model);
  CHECK(model.counts.scalar_type() == at::kLong);
  CHECK(model.counts.item<std::int64_t>() == 70001);
  CHECK(model.mask.scalar_type() == at::kBool);
  CHECK(c10::elementSize(model.scale.scalar_type()) == 2);
}

TEST_CASE("a batch without a loss is skipped") {
  /// Returns no loss in epoch 0, and one in every second batch of epoch 1.
  class Skipping : public Regression {
   public:
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      outputs_before = outputs_before || last_loss_defined;
      if (current_epoch() == 0 || idx % 2 == 0) return {};
      return Regression::training_step(batch, idx);
    }
    void on_train_batch_end(const StepOutput& output, const Batch&, std::int64_t) override {
      last_loss_defined = output.loss.defined();
    }
    void on_train_epoch_start() override {
      if (current_epoch() == 1) after_first = test::flat_parameters(*this);
    }
    at::Tensor after_first;
    bool last_loss_defined = false, outputs_before = false;
  };
  const std::string strategy = GENERATE("single", "dp");
  ModeSetting setting;
  setting.options.trainer.max_epochs = 2;
  setting.options.trainer.strategy = strategy;
  if (strategy == "dp") {
    setting.options.trainer.devices = "2";
    setting.options.trainer.accelerator = "cpu";
  }
  setting.make_replica = [] { return std::make_unique<Skipping>(); };
  Skipping model;
  const at::Tensor before = test::flat_parameters(model);
  const RunSummary summary = setting.fit(model);
  CHECK(at::equal(model.after_first, before));
  CHECK(summary.global_step == 2);
  CHECK_FALSE(at::equal(test::flat_parameters(model), before));
}

TEST_CASE("a model without validation_step trains on data with a validation split") {
  class NoValidation : public Module {
   public:
    NoValidation() { layer = register_module("layer", torch::nn::Linear(6, 2)); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return torch::nn::functional::mse_loss(layer->forward(batch[0]), batch[1]);
    }
    Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }
    torch::nn::Linear layer{nullptr};
  };
  ModeSetting setting;
  setting.options.trainer.num_sanity_val_steps = GENERATE(0, 2);
  NoValidation model;
  CHECK(setting.fit(model).global_step == 4);
  setting.options.trainer.check_val_every_n_epoch = 2;  // checkpoints do not wait for a validation
  setting.options.trainer.max_epochs = 2;
  CHECK(setting.fit(model).global_step == 8);
  CHECK(std::filesystem::exists(setting.dir.path() +
                                "/cxtrain_logs/version_1/checkpoints/epoch=1-step=8.ckpt"));
  ToyData data(32, 8, 16);
  Trainer trainer(setting.world, setting.options);
  CHECK_THROWS_WITH(trainer.validate(model, data), test::contains("validation_step"));
}

}  // namespace
}  // namespace cxtrain
