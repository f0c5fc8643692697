#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <csignal>

#include "cxtrain/callbacks/built_in.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/trainer/run_loaders.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/tuner.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/fake_strategy.h"
#include "support/faulty_filesystem.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// A run from its beginning to its end, good or bad, and what the trainer has of it afterwards.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

TEST_CASE("an error while a run opens leaves the trainer whole, with the user's callbacks and loggers") {
  class WithoutCallbacks : public Regression {
   public:
    std::vector<std::unique_ptr<Callback>> configure_callbacks() override {
      throw DataError("no such schedule of callbacks");
    }
  };
  struct CountsStarts : Callback {
    explicit CountsStarts(int& count) : starts_(count) {}
    void on_fit_start(Run&) override { ++starts_; }
    int& starts_;
  };
  struct CountsRows : MetricLogger {
    explicit CountsRows(int& count) : rows_(count) {}
    void log(std::int64_t, std::int64_t, std::span<const Metric>) override { ++rows_; }
    void flush() override {}
    int& rows_;
  };
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(32, 8, 16);
  int starts = 0, rows = 0;
  Trainer trainer(world, test::quiet(dir.path()));
  trainer.add_callback(std::make_unique<CountsStarts>(starts));
  trainer.add_logger(std::make_unique<CountsRows>(rows));
  {
    WithoutCallbacks model;
    CHECK_THROWS_WITH(trainer.fit(model, data), test::contains("no such schedule of callbacks"));
  }
  // What the program says of an error names the place: the run that would have known it is gone.
  CHECK(trainer.where() == "epoch 0, step 0");
  CHECK(starts == 0);
  Regression model;
  CHECK(trainer.fit(model, data).status == "done");
  CHECK(trainer.where().empty());
  CHECK(starts == 1);
  CHECK(rows > 0);  // of its validation
}

/// Writes down the hooks around a run.
struct Surroundings : Callback {
  explicit Surroundings(std::vector<std::string>& notes) : notes_(notes) {}
  void setup(Run&, Stage stage) override { notes_.push_back("setup " + std::string(name_of(stage))); }
  void on_fit_start(Run&) override { notes_.emplace_back("on_fit_start"); }
  void on_fit_end(Run&) override { notes_.emplace_back("on_fit_end"); }
  void teardown(Run&, Stage stage) override { notes_.push_back("teardown " + std::string(name_of(stage))); }
  void on_exception(Run&, const std::exception& error) override {
    notes_.push_back(std::string("on_exception ") + error.what());
  }
  std::vector<std::string>& notes_;
};

Registry with_built_in() {
  Registry registry;
  register_built_in(registry);
  return registry;
}

/// A session of its own, of a strategy that is in the test's hands, on files that are in memory.
struct Bench {
  explicit Bench(const Options& wanted = test::quiet("/runs")) : options(wanted) {
    Trainer decides(world, options);
    plan = decides.plan();
    kept.callbacks.push_back(std::make_unique<Surroundings>(hooks));
  }
  Session session(Stage stage) {
    return Session({world, options, plan, registry, at::kCPU, nullptr, config_text, replica_factory, files},
                   kept, std::make_unique<test::FakeStrategy>(strategy), model, data, stage);
  }
  std::string file(const std::string& name) {
    return read_whole_file(files, "/runs/cxtrain_logs/version_0/" + name);
  }

  SoloWorld world;
  Options options;
  Plan plan;
  Registry registry = with_built_in();
  std::string config_text = "seed: 1\n";
  std::function<std::unique_ptr<Module>()> replica_factory;
  test::FaultyFilesystem files;
  TrainerState kept;
  test::FakeStrategy::Notes strategy;
  std::vector<std::string> hooks;
  Regression model;
  ToyData data{32, 8, 16};
};

using Notes = std::vector<std::string>;

TEST_CASE("a session places, connects and tears down its strategy") {
  Bench bench;
  {
    Session session = bench.session(Stage::validate);
    session.open();
    CHECK(session.finish().status == "done");
  }
  CHECK(bench.strategy.calls == Notes{"place", "connect", "visit_whole", "teardown"});
  CHECK(bench.hooks == Notes{"setup validate", "teardown validate"});
  CHECK(bench.file("config.yaml") == "seed: 1\n");
  CHECK(bench.file("run.json").find("\"done\"") != std::string::npos);
}

TEST_CASE("a strategy that fails ends the session in order, wherever it fails") {
  const std::string where = GENERATE(as<std::string>{}, "place", "connect", "visit_whole");
  Bench bench;
  bench.strategy.fails_in = where;
  {
    Session session = bench.session(Stage::fit);
    const auto run = [&] {
      session.open();
      session.finish();
    };
    CHECK_THROWS_WITH(run(), "the strategy failed in " + where);
    session.fail(TrainingError("no more"));
  }
  CHECK(bench.file("run.json").find("\"failed\"") != std::string::npos);
  const bool had_begun = where == "visit_whole";
  CHECK(bench.hooks == (had_begun ? Notes{"setup fit", "on_exception no more"} : Notes{}));
}

TEST_CASE("a callback may throw anything in on_exception, and the others still hear of the error") {
  struct Thrower : Callback {
    void on_exception(Run&, const std::exception&) override { throw 42; }
  };
  Bench bench;
  bench.strategy.fails_in = "visit_whole";
  bench.kept.callbacks.insert(bench.kept.callbacks.begin(), std::make_unique<Thrower>());
  Session session = bench.session(Stage::fit);
  session.open();
  CHECK_THROWS(session.finish());
  session.fail(TrainingError("no more"));
  CHECK(bench.hooks == Notes{"setup fit", "on_exception no more"});
}

TEST_CASE("a call after a fit that made no folder writes nothing") {
  Bench bench;
  bench.kept.fitted = TrainState{.global_step = 1};
  {
    Session session = bench.session(Stage::test);
    session.open();
    CHECK(session.folder().path().empty());
    CHECK(session.finish().status == "done");
  }
  for (const char* path : {"/run.json", "/run.lock", "/runs"}) CHECK_FALSE(bench.files.status(path));
}

TEST_CASE("callbacks hear of a run's beginning, of its end, and of the error that ends it") {
  class Failing : public Regression {
   public:
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      if (fails) throw DataError("a bad sample");
      return Regression::training_step(batch, idx);
    }
    bool fails = false;
  };
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(32, 8, 16);
  Failing model;
  Notes hooks;
  Trainer trainer(world, test::quiet(dir.path()));
  trainer.add_callback(std::make_unique<Surroundings>(hooks));
  trainer.fit(model, data);
  CHECK(hooks == Notes{"setup fit", "on_fit_start", "on_fit_end", "teardown fit"});
  hooks.clear();
  trainer.test(model, data);
  trainer.predict(model, data);
  trainer.lr_find(model, data, {.num_training = 3});
  CHECK(hooks == Notes{"setup test", "teardown test", "setup predict", "teardown predict", "setup tune",
                       "teardown tune"});
  hooks.clear();
  model.fails = true;
  CHECK_THROWS_WITH(trainer.fit(model, data), test::contains("a bad sample"));
  CHECK(hooks == Notes{"setup fit", "on_fit_start", "on_exception a bad sample"});
}

/// Sends this process SIGTERM, as a batch system would.
struct Terminates : Callback {
  enum class At { sanity_check, step, end } at;
  explicit Terminates(At place) : at(place) {}
  void on_sanity_check_start(Run&) override { raise_at(At::sanity_check); }
  void on_train_batch_end(Run&, const StepOutput&, const Batch&, std::int64_t) override {
    raise_at(At::step);
  }
  void on_train_end(Run&) override { raise_at(At::end); }
  void raise_at(At here) const {
    if (here == at) std::raise(SIGTERM);
  }
};

TEST_CASE("a signal ends a fit where it finds it, and callbacks hear of it as of an error") {
  using At = Terminates::At;
  struct Row {
    At at;
    const char* status;
    int exit_code;
  };
  const Row row =
      GENERATE(Row{At::sanity_check, "stopped", 143}, Row{At::step, "stopped", 143}, Row{At::end, "done", 0});
  CAPTURE(static_cast<int>(row.at));
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(32, 8, 16);
  Regression model;
  Options options = test::quiet(dir.path());
  options.trainer.enable_checkpointing = false;
  options.trainer.num_sanity_val_steps = 2;
  Notes hooks;
  Trainer trainer(world, options);
  trainer.add_callback(std::make_unique<Surroundings>(hooks));
  trainer.add_callback(std::make_unique<Terminates>(row.at));
  const RunSummary summary = trainer.fit(model, data);
  CHECK(summary.status == row.status);
  CHECK(summary.exit_code == row.exit_code);
  if (row.at == At::end) {
    CHECK(hooks == Notes{"setup fit", "on_fit_start", "on_fit_end", "teardown fit"});
  } else {
    CHECK(hooks == Notes{"setup fit", "on_fit_start", "on_exception stopped by SIGTERM"});
    CHECK(summary.global_step == (row.at == At::step ? 1 : 0));
  }
}

TEST_CASE("a tuner finds what was asked for, and leaves options and model as they were") {
  Options options = test::quiet("/runs");
  options.trainer.auto_scale_batch_size = BatchScaling::power;
  options.trainer.auto_lr_find = true;
  options.optimizer.args["lr"] = "0.25";
  Bench bench(options);
  const at::Tensor before = test::flat_parameters(bench.model).clone();
  Session session = bench.session(Stage::fit);
  session.open();
  tune(session);
  CHECK(session.context().tuned.batch_size == 32);  // all there is
  CHECK(session.context().tuned.lr.has_value());
  CHECK(bench.options == options);
  CHECK(at::equal(test::flat_parameters(bench.model), before));
  CHECK(training_loader(session.context(), bench.data.train_dataloader())->num_batches() == 1);
  CHECK(std::count(bench.strategy.calls.begin(), bench.strategy.calls.end(), "prepare") == 2);
  session.finish();
}

TEST_CASE(
    "a complex parameter that is to be trained is refused before the first step, and may be there "
    "otherwise") {
  struct Spectral : Regression {
    Spectral() { filter = register_parameter("filter", at::ones({3}, at::kComplexFloat)); }
    at::Tensor filter;
  };
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(32, 8, 16);
  Trainer trainer(world, test::quiet(dir.path()));
  Spectral model;
  CHECK_THAT(test::error_of([&] { trainer.fit(model, data); }),
             test::contains(test::code(MessageCode::bad_model)) && test::contains("--model") &&
                 test::contains("filter") && test::contains("ComplexFloat") &&
                 test::contains("view_as_real"));
  CHECK(model.training_steps == 0);
  CHECK(trainer.validate(model, data).status == "done");
  model.filter.set_requires_grad(false);
  CHECK(trainer.fit(model, data).status == "done");
}

}  // namespace
}  // namespace cxtrain
