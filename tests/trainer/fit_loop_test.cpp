#include <ATen/ops/equal.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/callbacks/timer.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/model_checks.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/setting.h"

namespace cxtrain {
namespace {

using test::Regression;
using test::Setting;
using test::ToyData;
using Names = std::vector<std::string>;

/// Writes down every hook, the module's with a leading "m.".
class HookRecorder : public Callback {
 public:
  explicit HookRecorder(Names& names) : names_(names) {}
  void on_fit_start(Run&) override { names_.push_back("on_fit_start"); }
  void on_sanity_check_start(Run&) override { names_.push_back("on_sanity_check_start"); }
  void on_sanity_check_end(Run&) override { names_.push_back("on_sanity_check_end"); }
  void on_train_start(Run&) override { names_.push_back("on_train_start"); }
  void on_train_epoch_start(Run&) override { names_.push_back("on_train_epoch_start"); }
  void on_train_batch_start(Run&, const Batch&, std::int64_t) override {
    names_.push_back("on_train_batch_start");
  }
  void on_before_zero_grad(Run&) override { names_.push_back("on_before_zero_grad"); }
  void on_before_backward(Run&, const at::Tensor&) override { names_.push_back("on_before_backward"); }
  void on_after_backward(Run&) override { names_.push_back("on_after_backward"); }
  void on_before_optimizer_step(Run&, OptimizerRef&) override {
    names_.push_back("on_before_optimizer_step");
  }
  void on_train_batch_end(Run&, const StepOutput&, const Batch&, std::int64_t) override {
    names_.push_back("on_train_batch_end");
  }
  void on_validation_start(Run&) override { names_.push_back("on_validation_start"); }
  void on_validation_epoch_start(Run&) override { names_.push_back("on_validation_epoch_start"); }
  void on_validation_batch_start(Run&, const Batch&, std::int64_t) override {
    names_.push_back("on_validation_batch_start");
  }
  void on_validation_batch_end(Run&, const Batch&, std::int64_t) override {
    names_.push_back("on_validation_batch_end");
  }
  void on_validation_epoch_end(Run&) override { names_.push_back("on_validation_epoch_end"); }
  void on_validation_end(Run&) override { names_.push_back("on_validation_end"); }
  void on_train_epoch_end(Run&) override { names_.push_back("on_train_epoch_end"); }
  void on_train_end(Run&) override { names_.push_back("on_train_end"); }
  void on_fit_end(Run&) override { names_.push_back("on_fit_end"); }

 private:
  Names& names_;
};

class RecordingModel : public Regression {
 public:
  explicit RecordingModel(Names& names) : names_(names) {}
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    names_.push_back("training_step");
    return Regression::training_step(batch, idx);
  }
  void validation_step(const Batch& batch, std::int64_t idx) override {
    names_.push_back("validation_step");
    Regression::validation_step(batch, idx);
  }
  void on_train_epoch_end() override { names_.push_back("m.on_train_epoch_end"); }

 private:
  Names& names_;
};

TEST_CASE("hooks come in Lightning's order") {
  Setting setting;
  setting.options.trainer.num_sanity_val_steps = 1;
  setting.options.trainer.accumulate_grad_batches = 2;
  Names names;
  RecordingModel model(names);
  ToyData data(24, 8, 8);  // three batches: a step of two and one of one
  std::vector<std::unique_ptr<Callback>> callbacks;
  callbacks.push_back(std::make_unique<HookRecorder>(names));
  setting.fit(model, data, std::move(callbacks));

  const Names validation{"on_validation_start", "on_validation_epoch_start", "on_validation_batch_start",
                         "validation_step",     "on_validation_batch_end",   "on_validation_epoch_end",
                         "on_validation_end"};
  const Names first{"on_train_batch_start", "training_step", "on_before_zero_grad", "on_before_backward",
                    "on_after_backward"};
  const Names second{"on_train_batch_start", "training_step", "on_before_backward", "on_after_backward"};
  const Names stepped{"on_before_optimizer_step", "on_train_batch_end"};
  Names expected{"on_fit_start", "on_sanity_check_start"};
  const auto append = [&](const Names& more) { expected.insert(expected.end(), more.begin(), more.end()); };
  append(validation);
  append({"on_sanity_check_end", "on_train_start", "on_train_epoch_start"});
  append(first);
  append({"on_train_batch_end"});
  append(second);
  append(stepped);
  append(first);
  append(stepped);
  append(validation);
  append({"on_train_epoch_end", "m.on_train_epoch_end", "on_train_end", "on_fit_end"});
  CHECK(names == expected);
}

TEST_CASE("hooks get the output of a step, without gradients") {
  struct Named : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      const at::Tensor hidden = at::tanh(first->forward(batch[0]));
      if (idx == 1) return {{}, {{"hidden", hidden}}};  // skips the batch
      return {Regression::training_step(batch, idx).loss, {{"hidden", hidden}, {"none", {}}}};
    }
    void on_train_batch_end(const StepOutput& output, const Batch& batch, std::int64_t idx) override {
      CHECK(output.loss.defined() == (idx != 1));
      if (idx != 1) CHECK_FALSE(output.loss.requires_grad());
      CHECK_FALSE(output.extras.at("hidden").requires_grad());
      CHECK(output.extras.at("hidden").size(0) == batch.size);
      ++outputs;
    }
    void on_predict_batch_end(const at::Tensor& output, const Batch& batch, std::int64_t) override {
      CHECK(output.equal(predict_step(batch, 0)));
      ++outputs;
    }
    int outputs = 0;
  };
  Setting setting;
  setting.options.trainer.accumulate_grad_batches = 2;
  ToyData data(24, 8, 16);
  Named model;
  Trainer trainer(setting.world, setting.options);
  trainer.fit(model, data);
  CHECK(model.outputs == 3);
  trainer.predict(model, data);
  CHECK(model.outputs > 3);
}

TEST_CASE("limits count epochs, steps and batches as Lightning does") {
  Setting setting;
  TrainerOptions& trainer = setting.options.trainer;
  ToyData data(80, 8, 40);  // 10 training and 5 validation batches
  Regression model;
  SECTION("epochs") {
    trainer.max_epochs = 3;
    const RunSummary run = setting.fit(model, data);
    CHECK(run.epochs == 3);
    CHECK(run.global_step == 30);
    CHECK(model.validation_steps == 15);
  }
  SECTION("max_steps ends within an epoch") {
    trainer.max_epochs = 3;
    trainer.max_steps = 14;
    const RunSummary run = setting.fit(model, data);
    CHECK(run.global_step == 14);
    CHECK(run.epochs == 1);
  }
  SECTION("a fraction and a count of batches") {
    trainer.limit_train_batches = BatchLimit{0.55};
    trainer.limit_val_batches = BatchLimit{std::int64_t{2}};
    CHECK(setting.fit(model, data).global_step == 5);
    CHECK(model.validation_steps == 2);
  }
  SECTION("validation within the epoch") {
    trainer.val_check_interval = BatchLimit{0.25};
    setting.fit(model, data);
    CHECK(model.validation_steps == 5 * 5);  // every 2 of 10 batches
  }
  SECTION("validation every n batches across epochs") {
    trainer.max_epochs = 3;
    trainer.val_check_interval = BatchLimit{std::int64_t{15}};
    trainer.check_val_every_n_epoch.reset();
    setting.fit(model, data);
    CHECK(model.validation_steps == 2 * 5);
  }
  SECTION("validation every second epoch") {
    trainer.max_epochs = 5;
    trainer.check_val_every_n_epoch = 2;
    setting.fit(model, data);
    CHECK(model.validation_steps == 2 * 5);
  }
  SECTION("accumulation steps at the end of an epoch as well") {
    trainer.accumulate_grad_batches = 4;
    CHECK(setting.fit(model, data).global_step == 3);
  }
  SECTION("validation between the micro-batches of a step") {
    trainer.accumulate_grad_batches = 4;
    trainer.val_check_interval = BatchLimit{std::int64_t{3}};
    CHECK(setting.fit(model, data).global_step == 3);
    CHECK(model.validation_steps == 3 * 5);
  }
  SECTION("fast_dev_run") {
    trainer.max_epochs = 50;
    trainer.fast_dev_run = 2;
    CHECK(setting.fit(model, data).global_step == 2);
    CHECK(model.validation_steps == 2);
  }
  SECTION("overfit_batches repeats the same samples") {
    trainer.max_epochs = 4;
    trainer.overfit_batches = BatchLimit{std::int64_t{3}};
    CHECK(setting.fit(model, data).global_step == 12);
  }
  SECTION("max_time") {
    trainer.max_epochs = -1;
    trainer.max_time = std::chrono::seconds(1);
    const SteadyClock clock;
    const double begin = clock.now();
    const RunSummary run = setting.fit(model, data);
    CHECK(clock.now() - begin >= 1);
    CHECK(run.seconds > 0);
    CHECK(run.seconds < 60);
  }
  SECTION("nothing left to train on") {
    trainer.limit_train_batches = BatchLimit{0.01};
    CHECK_THAT(test::error_of([&] { setting.fit(model, data); }),
               test::contains(test::code(MessageCode::out_of_range)) && test::contains("10 batches") &&
                   test::contains("0.01"));
  }
}

TEST_CASE("a run is as long as what ends it first") {
  FitLimits limits{.max_epochs = 3, .train_batches = 10, .accumulate = 4};
  CHECK(limits.total_steps() == 9);
  limits.max_steps = 100;
  CHECK(limits.total_steps() == 9);
  limits.max_steps = 7;
  CHECK(limits.total_steps() == 7);
  limits.max_epochs = -1;
  CHECK(limits.total_steps() == 7);
  limits.max_steps = -1;
  CHECK(limits.total_steps() == 0);  // not known
}

TEST_CASE("the batch size of the options wins over the data's, and workers change nothing") {
  Setting setting;
  ToyData data(64, 8);
  Regression one, other;
  setting.options.data.batch_size = 4;
  CHECK(setting.fit(one, data).global_step == 16);
  setting.options.data.num_workers = 2;
  setting.fit(other, data);
  CHECK(test::flat_parameters(one).equal(test::flat_parameters(other)));
}

TEST_CASE("early stopping ends the run when the metric no longer improves") {
  Setting setting;
  setting.options.trainer.max_epochs = 500;
  setting.options.callbacks = {{"early_stopping", {{"monitor", "val_loss"}, {"patience", "2"}}}};
  setting.options.optimizer = {"sgd", {{"lr", "0"}}};
  ToyData data(16, 8, 8);
  Regression model;
  CHECK(setting.fit(model, data).epochs == 3);

  setting.options.trainer.min_epochs = 6;
  Regression longer;
  CHECK(setting.fit(longer, data).epochs == 6);

  setting.options.callbacks = {{"early_stopping", {{"monitor", "val_los"}}}};
  Regression wrong;
  CHECK_THROWS_WITH(setting.fit(wrong, data), test::contains("val_los"));
}

/// Validates with one of these scores in each epoch.
class Scored : public Regression {
 public:
  explicit Scored(std::vector<double> scores) : scores_(std::move(scores)) {}
  void validation_step(const Batch&, std::int64_t) override {
    log("score", scores_.at(static_cast<std::size_t>(current_epoch())));
  }

 private:
  std::vector<double> scores_;
};

TEST_CASE("early stopping compares by mode, min_delta and check_finite") {
  const auto epochs = [](const EarlyStopping::Args& args, std::vector<double> scores) {
    Setting setting;
    setting.options.trainer.max_epochs = static_cast<std::int64_t>(scores.size());
    ToyData data(16, 8, 8);
    Scored model(std::move(scores));
    std::vector<std::unique_ptr<Callback>> callbacks;
    callbacks.push_back(std::make_unique<EarlyStopping>(args));
    return setting.fit(model, data, std::move(callbacks)).epochs;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(epochs({.monitor = "score", .mode = MonitorMode::max, .patience = 2, .min_delta = 0.5},
               {1, 2, 2.4, 2.3, 9}) == 4);
  CHECK(epochs({.monitor = "score", .mode = MonitorMode::min, .patience = 2, .min_delta = 0.5},
               {9, 8, 7.6, 7.7, 1}) == 4);
  CHECK(epochs({.monitor = "score", .mode = MonitorMode::max, .patience = 2}, {1, 2, 2.4, 2.3, 9}) == 5);
  CHECK(epochs({.monitor = "score", .patience = 9}, {1, nan, 0, 0, 0}) == 2);
  CHECK(epochs({.monitor = "score", .patience = 9, .check_finite = false}, {1, nan, 0, 0, 0}) == 5);
}

TEST_CASE("early stopping at the ends of epochs may monitor a metric of training") {
  Setting setting;
  setting.options.trainer.max_epochs = 9;
  setting.options.trainer.limit_val_batches = BatchLimit{std::int64_t{0}};
  ToyData data(8, 8, 8);  // one batch, so that its loss stays
  Regression model({.optimizer = Sgd{.lr = 0}});
  std::vector<std::unique_ptr<Callback>> callbacks;
  callbacks.push_back(std::make_unique<EarlyStopping>(EarlyStopping::Args{
      .monitor = "train_loss", .patience = 1, .min_delta = 1e-3, .check_on_train_epoch_end = true}));
  CHECK(setting.fit(model, data, std::move(callbacks)).epochs == 2);
}

TEST_CASE("a model clips its gradients in its own way") {
  struct Own : Regression {
    using Regression::Regression;
    void configure_gradient_clipping(OptimizerRef& optimizer, std::optional<double> limit,
                                     GradientClipAlgorithm algorithm) override {
      ++asked;
      CHECK(limit == 0.5);
      CHECK(algorithm == GradientClipAlgorithm::value);
      optimizer.clip(1e-20, GradientClipAlgorithm::value);
    }
    int asked = 0;
  };
  Setting setting;
  setting.options.trainer.max_epochs = 1;
  setting.options.trainer.gradient_clip_val = 0.5;
  setting.options.trainer.gradient_clip_algorithm = GradientClipAlgorithm::value;
  Own model({.optimizer = Sgd{.lr = 1}});
  const at::Tensor before = test::flat_parameters(model).clone();
  ToyData data(16, 8, 8);
  setting.fit(model, data);
  CHECK(model.asked == 2);
  CHECK(test::flat_parameters(model).equal(before));
}

TEST_CASE("another fit trains although the fit before was stopped") {
  Setting setting;
  setting.options.trainer.max_epochs = 100;
  ToyData data(16, 8, 8);
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback<EarlyStopping>({.monitor = "val_loss", .patience = 1});
  Regression flat({.optimizer = Sgd{.lr = 0}}), again({.optimizer = Sgd{.lr = 0}});
  CHECK(trainer.fit(flat, data).epochs == 2);
  CHECK(trainer.fit(again, data).epochs == 2);

  Trainer timed(setting.world, setting.options);
  timed.add_callback<Timer>({.seconds = 0});
  CHECK(timed.fit(flat, data).global_step == 1);
  CHECK(timed.fit(again, data).global_step == 1);
}

/// Stops in the second step of an epoch.
class StopsWithin : public Callback {
 public:
  StopsWithin(std::int64_t step, bool saves) : step_(step), saves_(saves) {}
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    if (run.global_step() != step_) return;
    if (saves_) run.request_save();
    run.request_stop("enough");
  }

 private:
  std::int64_t step_;
  bool saves_;
};

TEST_CASE("a stop within an epoch checks and compares no metric that the epoch has not given") {
  const bool saves = GENERATE(false, true);
  const std::int64_t step = GENERATE(2, 6);
  Setting setting;
  setting.options.trainer.max_epochs = 3;
  setting.options.callbacks = {{"early_stopping", {{"monitor", "val_loss"}, {"patience", "9"}}}};
  setting.options.checkpoint.args = {{"monitor", "val_loss"}, {"save_last", saves ? "false" : "true"}};
  ToyData data(32, 8, 8);
  Regression straight, stopped, resumed;
  Setting whole;
  whole.options = setting.options;
  whole.options.trainer.default_root_dir = whole.dir.path();
  const RunSummary expected = whole.fit(straight, data);
  std::vector<std::unique_ptr<Callback>> callbacks;
  callbacks.push_back(std::make_unique<StopsWithin>(step, saves));
  const RunSummary summary = setting.fit(stopped, data, std::move(callbacks));
  CHECK(summary.status == "done");
  CHECK(summary.global_step == step);
  setting.options.ckpt_path = "last";
  const RunSummary all = setting.fit(resumed, data);
  CHECK(all.global_step == 12);
  CHECK(at::equal(test::flat_parameters(resumed), test::flat_parameters(straight)));
  // A save that the stop asked for has the metrics of the whole epoch.
  if (saves) CHECK(all.metrics == expected.metrics);
}

TEST_CASE("a sanity check draws no random number of the training") {
  struct Drawing : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      return Regression::training_step(batch, idx).loss.mul(at::rand({1}).item<double>());
    }
    void validation_step(const Batch& batch, std::int64_t idx) override {
      at::rand({7});
      Regression::validation_step(batch, idx);
    }
  };
  Setting setting;
  ToyData data(32, 8, 16);
  Drawing with, without;
  setting.fit(without, data);
  setting.options.trainer.num_sanity_val_steps = 2;
  setting.fit(with, data);
  CHECK(at::equal(test::flat_parameters(with), test::flat_parameters(without)));
}

TEST_CASE("schedules move the learning rate by step and by epoch") {
  Setting setting;
  setting.options.trainer.max_epochs = 4;
  setting.options.trainer.log_every_n_steps = 1;
  setting.options.callbacks = {{"lr_monitor", {}}};
  ToyData data(16, 8, 8);
  Regression model;
  SECTION("epochs") {
    setting.options.optimizer = {"sgd", {{"lr", "0.8"}}};
    setting.options.lr_scheduler = {"exponential", {{"gamma", "0.5"}}};
    CHECK(setting.fit(model, data).metrics.at("lr-SGD") == Catch::Approx(0.1));
  }
  SECTION("steps") {
    setting.options.optimizer = {"sgd", {{"lr", "0.8"}}};
    setting.options.lr_scheduler = {"constant", {{"warmup", "16"}}};
    CHECK(setting.fit(model, data).metrics.at("lr-SGD") == Catch::Approx(0.4));  // the eighth of sixteen
  }
  SECTION("plateau") {
    setting.options.optimizer = {"sgd", {{"lr", "1e-12"}}};  // nothing improves after the first epoch
    setting.options.lr_scheduler = {"plateau", {{"patience", "0"}, {"factor", "0.1"}, {"threshold", "1"}}};
    // Lowered after epochs 2 and 3, and logged before the end of an epoch.
    CHECK(setting.fit(model, data).metrics.at("lr-SGD") == Catch::Approx(1e-14));
  }
}

TEST_CASE("anomaly detection names a gradient that is not finite") {
  struct Broken : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return loss(batch).sub(loss(batch)).sqrt();
    }
  };
  Setting setting;
  ToyData data(16, 8);
  Broken model;
  setting.options.trainer.detect_anomaly = true;
  CHECK_THROWS_WITH(setting.fit(model, data), test::contains("nan"));
}

TEST_CASE("a loss that cannot be trained on is refused with the reason") {
  struct Vector : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t) override { return first->forward(batch[0]); }
  };
  struct Detached : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch).detach(); }
  };
  Setting setting;
  ToyData data(16, 8);
  Vector vector;
  CHECK_THAT(test::error_of([&] { setting.fit(vector, data); }),
             test::contains(test::code(MessageCode::bad_loss)) && test::contains("[8, 16]"));
  Detached detached;
  CHECK_THAT(test::error_of([&] { setting.fit(detached, data); }),
             test::contains(test::code(MessageCode::bad_loss)) && test::contains("gradient"));
}

TEST_CASE("a run leaves its files, which agree with each other") {
  Setting setting;
  setting.options.trainer.max_epochs = 2;
  setting.options.trainer.log_every_n_steps = 5;
  ToyData data(80, 8, 16);
  Regression model;
  const RunSummary run = setting.fit(model, data);
  const std::string logs = setting.dir.path() + "/cxtrain_logs/version_0/";
  const auto json = nlohmann::json::parse(std::ifstream(logs + "run.json"));
  CHECK(json["status"] == "done");
  CHECK(json["global_step"] == 20);
  CHECK(json["metrics"]["val_loss"].get<double>() == Catch::Approx(run.metrics.at("val_loss")));
  CHECK(json["parameters_sha256"] == run.parameters_sha256);
  CHECK(json["peak_memory_bytes"].get<double>() > 1e7);

  std::ifstream csv(logs + "metrics.csv");
  std::string line;
  std::getline(csv, line);
  CHECK(line == "epoch,step,train_loss,val_loss,val_mean");
  Names steps;
  while (std::getline(csv, line)) steps.push_back(line.substr(0, line.find(',', line.find(',') + 1)));
  const Names expected{"0,4", "0,9", "0,9", "1,14", "1,19", "1,19"};
  CHECK(steps == expected);
}

TEST_CASE("a layer that is registered twice is trained once, and counted once") {
  struct Tied : Regression {
    Tied() : Regression({.optimizer = Sgd{.lr = 0.5}}) { register_module("again", first.ptr()); }
  };
  Setting setting;
  setting.options.trainer.max_steps = 1;
  ToyData data(8, 8);
  Tied tied;
  Regression plain({.optimizer = Sgd{.lr = 0.5}});
  setting.fit(tied, data);
  setting.fit(plain, data);
  CHECK(at::equal(tied.first->weight, plain.first->weight));
  std::int64_t counted = 0;
  for (const LayerRow& row : layer_rows(tied)) counted += row.params;
  CHECK(counted == 6 * 16 + 16 + 16 * 2 + 2);
}

TEST_CASE("the same seed gives the same bits, another seed others") {
  ToyData data(64, 8);
  const auto hash = [&](std::uint64_t seed) {
    Setting setting;
    setting.options.seed = seed;
    Regression model;
    return setting.fit(model, data).parameters_sha256;
  };
  CHECK(hash(1) == hash(1));
  CHECK(hash(1) != hash(2));
}

class EveryNth : public MetricLogger {
 public:
  struct Args {
    std::int64_t every = 1;

    void fields(auto&& field) { field("every", every, "rows between two that are kept", Range::at_least(1)); }
  };
  explicit EveryNth(Args args) : every_(args.every) {}
  void log(std::int64_t, std::int64_t, std::span<const Metric>) override { ++rows; }
  void flush() override {}
  std::int64_t every() const { return every_; }
  int rows = 0;

 private:
  std::int64_t every_;
};

TEST_CASE("a logger is made with its arguments, which are checked") {
  Setting setting;
  Trainer trainer(setting.world, setting.options);
  const EveryNth& logger = trainer.add_logger<EveryNth>({.every = 3});
  CHECK(logger.every() == 3);
  CHECK_THAT(test::error_of<ConfigError>([&] { trainer.add_logger<EveryNth>({.every = 0}); }),
             test::contains("every"));
  ToyData data(16, 8, 8);
  Regression model;
  trainer.fit(model, data);
  CHECK(logger.rows > 0);
}

TEST_CASE("validate, test and predict run without training") {
  Setting setting;
  ToyData data(16, 8, 20);
  Regression model;
  const at::Tensor before = test::flat_parameters(model);
  Trainer trainer(setting.world, setting.options);
  CHECK(trainer.validate(model, data).metrics.contains("val_loss"));
  CHECK(trainer.test(model, data).metrics.contains("test_loss"));
  trainer.predict(model, data);
  CHECK(at::cat(trainer.predictions().outputs).sizes() == at::IntArrayRef({20, 2}));
  CHECK_THROWS_AS(trainer.predictions(1), std::out_of_range);
  CHECK(before.equal(test::flat_parameters(model)));
  CHECK(model.training_steps == 0);
}

TEST_CASE("a stage without its step method is refused by name") {
  struct OnlyTrains : Module {
    OnlyTrains() { layer = register_module("layer", torch::nn::Linear(6, 2)); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return layer->forward(batch[0]).mean();
    }
    Optimizers configure_optimizers() override { return {}; }
    torch::nn::Linear layer{nullptr};
  };
  Setting setting;
  ToyData data(16, 8, 8);
  OnlyTrains model;
  Trainer trainer(setting.world, setting.options);
  CHECK_THROWS_WITH(trainer.test(model, data), test::contains("test_step"));
}

}  // namespace
}  // namespace cxtrain
