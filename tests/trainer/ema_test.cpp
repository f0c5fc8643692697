#include "cxtrain/callbacks/ema.h"

#include <ATen/core/grad_mode.h>

#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/run_of_values.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/setting.h"

/// Moving averages of the parameters: in validations, at the end, and in a resumed training.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

std::vector<at::Tensor> copies_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : module.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

bool near(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::allclose(a[i], b.at(i), 1e-6, 1e-7)) return false;
  }
  return a.size() == b.size();
}

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b.at(i))) return false;
  }
  return a.size() == b.size();
}

/// Averages by hand; it runs behind Ema, and looks at what validations see.
class ByHand : public Callback {
 public:
  explicit ByHand(double decay) : decay_(decay) {}

  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> own = copies_of(run.module());
    if (averages.empty()) averages = own;
    for (std::size_t i = 0; i < own.size(); ++i) averages[i].lerp_(own[i], 1 - decay_);
  }
  void on_validation_start(Run& run) override {
    if (run.progress().sanity_checking) return;
    ++validations;
    CHECK(near(copies_of(run.module()), averages));
  }
  void on_validation_end(Run& run) override {
    if (!run.progress().sanity_checking) after_validation = copies_of(run.module());
  }
  void on_train_batch_start(Run& run, const Batch&, std::int64_t) override {
    if (!after_validation.empty()) CHECK(same(copies_of(run.module()), after_validation));
    after_validation.clear();
  }
  void on_train_epoch_end(Run& run) override { own_at_end = copies_of(run.module()); }

  std::vector<at::Tensor> averages, after_validation, own_at_end;
  int validations = 0;

 private:
  double decay_;
};

/// Keeps the state after `step`.
class Keeper : public Callback {
 public:
  explicit Keeper(std::int64_t step) : step_(step) {}

  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    if (run.global_step() == step_) run.request_checkpoint();
  }
  void on_checkpoint(Run& run, const StateDict& state) override {
    if (run.global_step() == step_) kept = state.clone();  // other callbacks request states, too
  }

  std::optional<StateDict> kept;

 private:
  std::int64_t step_;
};

struct EmaRun : test::Setting {
  EmaRun() { options.trainer.max_epochs = 3; }
  ToyData data{32, 8, 20};
};

TEST_CASE("validations see the averages, the training its own parameters, and the end is the averages") {
  EmaRun setting;
  Regression plain, model;
  Trainer without(setting.world, setting.options);
  without.fit(plain, setting.data);

  Trainer trainer(setting.world, setting.options);
  trainer.add_callback<Ema>({.decay = 0.9});
  ByHand& by_hand = trainer.add_callback<ByHand>(0.9);
  const RunSummary fitted = trainer.fit(model, setting.data);
  CHECK(by_hand.validations == 3);
  CHECK(same(by_hand.own_at_end, copies_of(plain)));  // the averages have changed no step
  CHECK(near(copies_of(model), by_hand.averages));
  CHECK_FALSE(near(copies_of(model), copies_of(plain)));
  const RunSummary tested = trainer.validate(model, setting.data);
  CHECK(tested.metrics.at("val_loss") == Approx(fitted.metrics.at("val_loss")));
}

TEST_CASE("a fit after a fit that has failed in a validation averages anew") {
  /// Fails once, in its second validation.
  struct Failing : Regression {
    void validation_step(const Batch& batch, std::int64_t idx) override {
      if (idx == 0 && ++validations == 2) throw TrainingError("no more");
      Regression::validation_step(batch, idx);
    }
    int validations = 0;
  };
  EmaRun setting;
  Failing model;
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback<Ema>({.decay = 0.9});
  CHECK_THROWS_WITH(trainer.fit(model, setting.data), test::contains("no more"));
  ByHand& by_hand = trainer.add_callback<ByHand>(0.9);
  trainer.fit(model, setting.data);
  CHECK(by_hand.validations == 3);
  CHECK(near(copies_of(model), by_hand.averages));
}

TEST_CASE("averages begin at a step, and take every n-th") {
  EmaRun setting;
  Regression model;
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback<Ema>({.decay = 0.5, .every_n_steps = 4, .start_step = 8});
  trainer.fit(model, setting.data);
  // Steps 8 and 12.
  std::vector<std::vector<at::Tensor>> at_step;
  for (const std::int64_t steps : {8, 12}) {
    Regression plain;
    Options options = setting.options;
    options.trainer.max_steps = steps;
    Trainer(setting.world, options).fit(plain, setting.data);
    at_step.push_back(copies_of(plain));
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < at_step[0].size(); ++i) at_step[0][i].add_(at_step[1][i]).mul_(0.5);
  CHECK(near(copies_of(model), at_step[0]));
}

TEST_CASE("a batch without a step updates no averages") {
  RunOfValues values;
  Ema ema({.every_n_steps = 3});
  StateDict state;
  for (std::int64_t step = 1; step <= 6; ++step) {
    values.state.global_step = step;
    for (const bool stepped : {true, false}) {  // the second batch is the first micro-batch of the next step
      values.progress.stepped = stepped;
      ema.on_train_batch_end(values.run, {}, {}, 0);
    }
  }
  ema.on_save_checkpoint(state);
  CHECK(state.integer("updates") == 2);
}

TEST_CASE("a resumed training has the same averages to the bit") {
  EmaRun setting;
  const auto train = [&](Regression& model, std::optional<StateDict> from) {
    Trainer trainer(setting.world, setting.options);
    trainer.add_callback<Ema>({.decay = 0.9});
    Keeper& keeper = trainer.add_callback<Keeper>(6);
    if (from)
      trainer.fit(model, setting.data, ResumeFrom{*from});
    else
      trainer.fit(model, setting.data);
    return keeper.kept;
  };
  Regression whole, resumed;
  const std::optional<StateDict> kept = train(whole, {});
  REQUIRE(kept.has_value());
  CHECK(kept->section("callbacks").section("Ema").integer("updates") == 6);
  train(resumed, kept);
  CHECK(same(copies_of(resumed), copies_of(whole)));
}

TEST_CASE("two averages are refused: a validation can use one of them") {
  EmaRun setting;
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback<Ema>({.decay = 0.9});
  trainer.add_callback<Ema>({.decay = 0.5});
  Regression model;
  CHECK_THAT(test::error_of([&] { trainer.fit(model, setting.data); }),
             test::contains(test::code(MessageCode::conflicting_options)) && test::contains("average"));
}

}  // namespace
}  // namespace cxtrain
