#include "cxtrain/callbacks/divergence_check.h"
#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/callbacks/ema.h"
#include "cxtrain/callbacks/loss_spike.h"
#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/callbacks/run_of_values.h"
#include "cxtrain/callbacks/timer.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/setting.h"

namespace cxtrain {
namespace {

template <class Made>
std::string refusal_of(const typename Made::Args& args) {
  return test::error_of([&] { Made{args}; });
}

TEST_CASE("arguments that a program gives in C++ have the ranges of the command line") {
  CHECK_THAT(refusal_of<Ema>({.every_n_steps = 0}), test::contains("Ema::Args::every_n_steps"));
  CHECK_THAT(refusal_of<Ema>({.decay = 2}), test::contains("Ema::Args::decay"));
  CHECK_THAT(refusal_of<DivergenceCheck>({.every_n_train_steps = 0}),
             test::contains("DivergenceCheck::Args::every_n_train_steps"));
  CHECK_THAT(refusal_of<LossSpike>({.limits = {}, .every_n_train_steps = 0}),
             test::contains("LossSpike::Args::every_n_train_steps"));
  CHECK_THAT(refusal_of<LossSpike>({.limits = {.window = 20, .in_a_row = 20}}), test::contains("in_a_row"));
  CHECK_THAT(refusal_of<Timer>({.seconds = -1}), test::contains("Timer::Args::seconds"));
  CHECK_THAT(refusal_of<EarlyStopping>({.monitor = "val_loss", .patience = -1}),
             test::contains("EarlyStopping::Args::patience"));
  CHECK_THAT(refusal_of<ModelCheckpoint>({.save_top_k = -2}),
             test::contains("ModelCheckpoint::Args::save_top_k"));
  CHECK_NOTHROW(Ema({.every_n_steps = 2}));
}

/// A callback and a model of a user: neither checks its arguments.
struct Limited {
  std::int64_t every = 1;
  std::string monitor = "loss";
  void fields(auto&& field) {
    field("every", every, "steps between", Range::at_least(1));
    field("monitor", monitor, "metric", kRequired);
  }
};

class OwnCallback : public Callback {
 public:
  using Args = Limited;
  explicit OwnCallback(const Args& its_args) : args(its_args) {}
  Args args;
};

class OwnModel : public test::Regression {
 public:
  explicit OwnModel(const Limited& args) { save_hyperparameters(args); }
};

TEST_CASE(
    "the arguments of a user's callback and model are checked where the trainer and the model get them") {
  test::Setting setting;
  Trainer trainer(setting.world, setting.options);
  CHECK(trainer.add_callback<OwnCallback>({.every = 2}).args.every == 2);
  CHECK_THAT(test::error_of<ConfigError>([&] { trainer.add_callback<OwnCallback>({.every = 0}); }),
             test::contains("Limited::every") && test::contains(test::code(MessageCode::out_of_range)));
  CHECK_THAT(test::error_of<ConfigError>([&] { trainer.add_callback<OwnCallback>({.monitor = ""}); }),
             test::contains("Limited::monitor") && test::contains(test::code(MessageCode::missing_value)));
  CHECK(OwnModel({.every = 3}).hparams().at("every") == "3");
  CHECK_THAT(test::error_of<ConfigError>([] { OwnModel({.every = 0}); }), test::contains("Limited::every"));
}

/// Looks at its model, as a callback for models of one class does.
class Freezes : public Callback {
 public:
  void on_fit_start(Run& run) override {
    run.module<test::Regression>().first->weight.set_requires_grad(false);
  }
};

TEST_CASE("a run of values has the model that a callback asks for") {
  test::Regression model;
  Freezes callback;
  RunOfValues values(model);
  callback.on_fit_start(values.run);
  CHECK_FALSE(model.first->weight.requires_grad());
  RunOfValues without;
  CHECK_THAT(test::error_of<TrainingError>([&] { callback.on_fit_start(without.run); }),
             test::contains("Regression") && test::contains("torch::nn::Module"));
}

}  // namespace
}  // namespace cxtrain
