#include <fstream>
#include <nlohmann/json.hpp>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

/// Logs, in each of these hooks, a value that tells the epoch: 10 * epoch + step within the run.
class LoggingModel : public Regression {
 public:
  void on_train_start() override { note("on_train_start"); }
  void on_train_epoch_start() override { note("on_train_epoch_start"); }
  void on_train_batch_start(const Batch&, std::int64_t) override { note("on_train_batch_start"); }
  void on_before_backward(const at::Tensor&) override { note("on_before_backward"); }
  void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override {
    note("on_train_batch_end");
  }
  void on_train_epoch_end() override { note("on_train_epoch_end"); }
  void on_validation_start() override { note("on_validation_start"); }
  void on_validation_epoch_start() override { note("on_validation_epoch_start"); }
  void on_validation_batch_end(const Batch&, std::int64_t) override { note("on_validation_batch_end"); }
  void on_validation_epoch_end() override { note("on_validation_epoch_end"); }
  void on_test_start() override { note("on_test_start"); }
  void on_test_batch_end(const Batch&, std::int64_t) override { note("on_test_batch_end"); }
  void on_test_epoch_end() override { note("on_test_epoch_end"); }

  std::string only;  ///< the hook that logs; empty: all of them

 protected:
  void note(const std::string& hook) {
    if (only.empty() || only == hook) log(hook, static_cast<double>(10 * current_epoch() + global_step()));
  }
};

/// Each row of metrics.jsonl that has this metric: epoch, step, value.
std::vector<std::vector<double>> rows_with(const std::string& name, const std::string& folder) {
  std::ifstream file(folder + "/metrics.jsonl");
  std::vector<std::vector<double>> rows;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.contains(name)) rows.push_back({row["epoch"], row["step"], row[name]});
  }
  return rows;
}

/// Two epochs of two steps, each with a validation of two batches.
struct Fit {
  test::TempDir dir;
  SoloWorld world;
  Options options = test::quiet(dir.path());
  ToyData data{16, 8, 16};

  Fit() {
    options.trainer.max_epochs = 2;
    options.trainer.log_every_n_steps = 1;
    options.trainer.num_sanity_val_steps = 1;
  }
  RunSummary run(Module& model, std::unique_ptr<Callback> callback = nullptr) {
    Trainer trainer(world, options);
    if (callback) trainer.add_callback(std::move(callback));
    return trainer.fit(model, data);
  }
  std::vector<std::vector<double>> rows(const std::string& name) const {
    return rows_with(name, dir.path() + "/cxtrain_logs/version_0");
  }
};

using Rows = std::vector<std::vector<double>>;

TEST_CASE("what hooks log goes to the row of their own step or epoch") {
  Fit fit;
  LoggingModel model;
  fit.run(model);
  // epoch, step, value; an epoch's row has its last step
  CHECK(fit.rows("on_train_start") == Rows{{0, 1, 0}});
  CHECK(fit.rows("on_train_epoch_start") == Rows{{0, 1, 0}, {1, 3, 12}});
  CHECK(fit.rows("on_train_batch_start") == Rows{{0, 0, 0}, {0, 1, 1}, {1, 2, 12}, {1, 3, 13}});
  CHECK(fit.rows("on_before_backward") == Rows{{0, 0, 0}, {0, 1, 1}, {1, 2, 12}, {1, 3, 13}});
  CHECK(fit.rows("on_train_batch_end") == Rows{{0, 0, 1}, {0, 1, 2}, {1, 2, 13}, {1, 3, 14}});
  CHECK(fit.rows("on_train_epoch_end") == Rows{{0, 1, 2}, {1, 3, 14}});
  CHECK(fit.rows("on_validation_start") == Rows{{0, 1, 2}, {1, 3, 14}});
  CHECK(fit.rows("on_validation_epoch_start") == Rows{{0, 1, 2}, {1, 3, 14}});
  CHECK(fit.rows("on_validation_batch_end") == Rows{{0, 1, 2}, {1, 3, 14}});
  CHECK(fit.rows("on_validation_epoch_end") == Rows{{0, 1, 2}, {1, 3, 14}});
}

TEST_CASE("a callback's values are treated like the module's") {
  class Logs : public Callback {
    void on_train_epoch_end(Run& run) override {
      run.log("mine", 1.0 + static_cast<double>(run.current_epoch()));
    }
    void on_validation_epoch_end(Run& run) override { run.log("checked", 5.0); }
  };
  Fit fit;
  Regression model;
  fit.run(model, std::make_unique<Logs>());
  CHECK(fit.rows("mine") == Rows{{0, 1, 1}, {1, 3, 2}});
  CHECK(fit.rows("checked") == Rows{{0, 1, 5}, {1, 3, 5}});
}

TEST_CASE("hooks at the end of an epoch read the values of this epoch") {
  class Reads : public Callback {
   public:
    void on_validation_epoch_end(Run& run) override {
      if (run.progress().sanity_checking) return;
      in_epoch_end.push_back(run.metric("val_loss").value());
      run.log("twice_val_loss", 2 * in_epoch_end.back());
    }
    void on_validation_end(Run& run) override {
      if (!run.progress().sanity_checking) in_end.push_back(run.metric("val_loss").value());
    }
    void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
      run.log("step", static_cast<double>(run.global_step()), {.on_epoch = true});
    }
    void on_train_epoch_end(Run& run) override { trained.push_back(run.metric("step_epoch").value()); }
    std::vector<double> in_epoch_end, in_end, trained;
  };
  Fit fit;
  Regression model;
  auto owned = std::make_unique<Reads>();
  const Reads& read = *owned;
  Trainer trainer(fit.world, fit.options);
  trainer.add_callback(std::move(owned));
  const auto metrics = trainer.fit(model, fit.data).metrics;
  REQUIRE(read.in_epoch_end.size() == 2);
  CHECK(read.in_epoch_end == read.in_end);
  CHECK(read.in_epoch_end[0] != read.in_epoch_end[1]);
  CHECK(read.trained == std::vector<double>{1.5, 3.5});  // of the steps 1 and 2, 3 and 4
  CHECK(metrics.at("val_loss") == read.in_end[1]);
  CHECK(metrics.at("twice_val_loss") == 2 * read.in_end[1]);
  CHECK(fit.rows("val_loss").size() == 2);
}

TEST_CASE("hooks that no row follows refuse to log, or say that it has no effect") {
  class FitStart : public Regression {
    void on_fit_start() override { log("too_early", 1.0); }
  };
  class ValidationEnd : public Regression {
    void on_validation_end() override { log("too_late", 1.0); }
  };
  class OnStep : public Regression {
    void on_train_epoch_end() override { log("no_step", 1.0, {.on_step = true}); }
  };
  class TrainEnd : public Regression {
    void on_train_end() override { log("over", 1.0); }
  };
  Fit fit;
  FitStart early;
  CHECK_THAT(test::error_of([&] { fit.run(early); }),
             test::contains(test::code(MessageCode::log_misuse)) &&
                 test::contains("log(\"too_early\") in on_fit_start"));
  ValidationEnd late;
  CHECK_THROWS_WITH(fit.run(late), test::contains("on_validation_end"));
  OnStep step;
  CHECK_THAT(test::error_of([&] { fit.run(step); }), test::contains(test::code(MessageCode::log_misuse)) &&
                                                         test::contains("on_train_epoch_end") &&
                                                         test::contains("on_step"));
  TrainEnd end;
  CHECK(fit.run(end).metrics.count("over") == 0);
}

TEST_CASE("the latest value of a name is the one that counts") {
  /// Both steps log `loss`, a training value that falls and a validation value that rises.
  class SameName : public Regression {
   public:
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      log("loss", 100.0 - static_cast<double>(global_step()));
      return loss(batch);
    }
    void validation_step(const Batch&, std::int64_t) override {
      log("loss", 1.0 + static_cast<double>(current_epoch()));
    }
  };
  class Watch : public Callback {
   public:
    explicit Watch(std::vector<double>& seen) : seen_(seen) {}
    void on_validation_end(Run& run) override {
      if (!run.progress().sanity_checking) seen_.push_back(run.metric("loss").value());
    }

   private:
    std::vector<double>& seen_;
  };
  Fit fit;
  SameName model;
  std::vector<double> seen;
  const RunSummary summary = fit.run(model, std::make_unique<Watch>(seen));
  CHECK(seen == std::vector<double>{1, 2});
  CHECK(summary.metrics.at("loss") == 2);
}

TEST_CASE("reduce_fx makes one value of an epoch's") {
  class Reduced : public Regression {
   public:
    void validation_step(const Batch& batch, std::int64_t batch_idx) override {
      const double value = batch_idx == 0 ? 3.0 : 5.0;
      log("sum", value, {.reduce_fx = ReduceFx::sum});
      log("min", at::full({}, value), {.reduce_fx = ReduceFx::min});
      log("max", value, {.reduce_fx = ReduceFx::max});
      log_dict({{"weighted", at::full({}, value)}}, {.batch_size = batch_idx == 0 ? 3 : 1});
      log_dict(std::map<std::string, double>{{"mean", value}});
      static_cast<void>(batch);
    }
  };
  Fit fit;
  Reduced model;
  const auto metrics = fit.run(model).metrics;
  CHECK(metrics.at("sum") == 8);
  CHECK(metrics.at("min") == 3);
  CHECK(metrics.at("max") == 5);
  CHECK(metrics.at("weighted") == 3.5);
  CHECK(metrics.at("mean") == 4);
}

TEST_CASE("early stopping can watch a metric of training, and names what there is") {
  Fit fit;
  fit.options.trainer.max_epochs = 10;
  class Stuck : public Regression {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      log("stuck", 1.0, {.on_epoch = true});
      return loss(batch);
    }
  };
  Stuck model;
  const RunSummary summary = fit.run(
      model, std::make_unique<EarlyStopping>(EarlyStopping::Args{.monitor = "stuck_epoch", .patience = 2}));
  CHECK(summary.epochs == 3);
  Stuck other;
  CHECK_THROWS_WITH(
      fit.run(other, std::make_unique<EarlyStopping>(EarlyStopping::Args{.monitor = "nothing"})),
      test::contains("logged: ") && test::contains("stuck_epoch"));
}

TEST_CASE("a learning rate sweep runs no hooks of a fit") {
  class Counting : public Regression {
   public:
    void on_fit_start() override { ++starts; }
    void on_fit_end() override { ++ends; }
    int starts = 0, ends = 0;
  };
  Fit fit;
  fit.options.trainer.auto_lr_find = true;
  Counting model;
  fit.run(model);
  CHECK(model.starts == 1);
  CHECK(model.ends == 1);
}

TEST_CASE("a run's seconds are those of training") {
  static constexpr double kSpent = 0.1;
  class Busy : public Regression {
   public:
    void on_fit_start() override { spend(); }
    void on_validation_epoch_end() override { spend(); }
    void on_train_epoch_end() override { spend(); }
    void on_fit_end() override { spend(); }

   private:
    static void spend() {
      const SteadyClock clock;
      for (const double begin = clock.now(); clock.now() - begin < kSpent;) continue;
    }
  };
  Fit fit;
  fit.options.trainer.num_sanity_val_steps = 0;
  Busy model;
  const SteadyClock clock;
  const double begin = clock.now();
  const RunSummary summary = fit.run(model);
  CHECK(summary.seconds > 0);
  CHECK(summary.seconds < clock.now() - begin - 6 * kSpent);  // two epochs, each with a validation
  CHECK(summary.samples_per_second == 32 / summary.seconds);
}

}  // namespace
}  // namespace cxtrain
