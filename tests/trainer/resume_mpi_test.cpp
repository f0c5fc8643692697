#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/modules/batchnorm.h>

#include <array>
#include <cstdio>
#include <functional>

#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/checkpoint/checkpoint_reader.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/run_files.h"
#include "support/toy_models.h"

/// A training that is saved, and resumed on new objects, comes to the same bits as one that was not: for
/// every optimizer, precision, strategy and accumulation, wherever it was saved.
namespace cxtrain {
namespace {

constexpr std::int64_t kSamples = 96, kBatch = 8, kEpochs = 5;  ///< samples of each rank

/// A model that has everything that a resumed training can get wrong: dropout, batch norm, layers that are
/// frozen at first, a layer whose mode a hook changes, gradients that overflow now and then, and a memory of
/// its own that its loss depends on.
class Forgetful : public Module {
 public:
  Forgetful(OptimizerSetup setup, bool overflows, std::uint64_t seed, bool forgets)
      : setup_(std::move(setup)), overflows_(overflows), forgets_(forgets) {
    at::manual_seed(seed);
    first = register_module("first", torch::nn::Linear(6, 24));
    norm = register_module("norm", torch::nn::BatchNorm1d(24));
    late = register_module("late", torch::nn::Linear(24, 24));
    quiet = register_module("quiet", torch::nn::BatchNorm1d(24));
    last = register_module("last", torch::nn::Linear(24, 2));
    for (at::Tensor& parameter : late->parameters()) parameter.set_requires_grad(false);
    seen_ = at::zeros({});
  }
  at::Tensor training_step(const Batch& batch, std::int64_t batch_idx) override {
    at::Tensor hidden = norm->forward(first->forward(batch[0]));
    hidden =
        torch::nn::functional::dropout(hidden.tanh(), torch::nn::functional::DropoutFuncOptions().p(0.25));
    hidden = quiet->forward(late->forward(hidden));
    at::Tensor loss =
        torch::nn::functional::mse_loss(last->forward(hidden).to(at::kFloat), batch[1].to(at::kFloat));
    loss = loss * (1 + 0.01 * static_cast<double>(batches_ % 7)) + 0.001 * seen_.item<double>() * loss;
    log("train_loss", loss, {.on_step = true, .on_epoch = true});
    if (overflows_ && current_epoch() < 2 && batch_idx % 4 == 1) loss = loss * 1e38;
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    const at::Tensor hidden = quiet->forward(late->forward(norm->forward(first->forward(batch[0])).tanh()));
    log("val_loss",
        torch::nn::functional::mse_loss(last->forward(hidden).to(at::kFloat), batch[1].to(at::kFloat)));
  }
  OptimizerSetup configure_optimizers() override { return setup_; }

  void on_train_epoch_start() override {
    if (current_epoch() != 2) return;
    for (at::Tensor& parameter : late->parameters()) parameter.set_requires_grad(true);
    quiet->eval();
  }
  void on_train_batch_end(const at::Tensor& loss, const Batch&, std::int64_t) override {
    ++batches_;
    if (loss.isfinite().item<bool>() && loss.item<double>() < 100)
      seen_ = seen_ * 0.9 + loss.to(at::kFloat).cpu();
  }
  void on_save_checkpoint(StateDict& state) override {
    state.set("batches", batches_);
    state.set("seen", seen_);
  }
  void on_load_checkpoint(const StateDict& state) override {
    if (forgets_) return;
    batches_ = state.integer("batches");
    seen_ = state.tensor("seen").clone();
  }

  torch::nn::Linear first{nullptr}, late{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr}, quiet{nullptr};

 private:
  OptimizerSetup setup_;
  bool overflows_, forgets_;
  std::int64_t batches_ = 0;
  at::Tensor seen_;
};

/// Other samples whenever its training data are asked for.
class Growing : public DataModule {
 public:
  explicit Growing(std::int64_t batch_size, int ranks) : batch_size_(batch_size), ranks_(ranks) {}
  void setup(const DataOptions&) override {}
  DataLoaderSpec train_dataloader() override {
    return {samples(kSamples * ranks_, 10 + asked_++), batch_size_, true};
  }
  DataLoaderSpec val_dataloader() override { return {samples(16 * ranks_, 5), batch_size_}; }
  void on_save_checkpoint(StateDict& state) override { state.set("asked", asked_); }
  void on_load_checkpoint(const StateDict& state) override {
    asked_ = state.integer("asked") - 1;  // the loader that was in use is asked for again
  }

 private:
  static std::shared_ptr<TensorDataset> samples(std::int64_t count, std::int64_t seed) {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU).clone();
    generator.set_current_seed(static_cast<std::uint64_t>(seed));
    return std::make_shared<TensorDataset>(
        std::vector<at::Tensor>{at::randn({count, 6}, generator), at::randn({count, 2}, generator)});
  }
  std::int64_t batch_size_;
  int ranks_;
  std::int64_t asked_ = 0;
};

/// Asks for the state of the training when it has seen so many batches, in the middle of a step or not, and
/// keeps it. Counts on when a training is resumed.
class Saver : public Callback {
 public:
  struct Wishes {
    std::int64_t after_batches = 0;  ///< of the training; 0: never
    bool after_validation = false;   ///< with the next one's end
    bool after_epoch = false;        ///< with the epoch's end
    bool stop = false;               ///< ... and to stop
    bool requeue = false;            ///< ... or to be started again
  };
  /// `path`: the same on all ranks.
  Saver(Wishes wishes, std::optional<StateDict>& saved, std::string path)
      : wishes_(wishes), saved_(saved), path_(std::move(path)) {}

  void on_train_batch_end(RunView& run, const at::Tensor&, const Batch&, std::int64_t) override {
    if (++batches_ != wishes_.after_batches) return;
    waits_ = true;
    if (!wishes_.after_validation && !wishes_.after_epoch) ask(run);
  }
  void on_validation_end(RunView& run) override {
    if (waits_ && wishes_.after_validation) ask(run);
  }
  void on_train_epoch_end(RunView& run) override {
    if (waits_ && wishes_.after_epoch) ask(run);
  }
  void on_checkpoint(RunView& run, const StateDict& state) override {
    saved_ = state.clone();
    CHECK(run.ends_with_checkpoint() == wishes_.requeue);
    run.save_checkpoint(state, {.path = path_});
  }
  void on_save_checkpoint(StateDict& state) override { state.set("batches", batches_); }
  void on_load_checkpoint(const StateDict& state) override { batches_ = state.integer("batches"); }

 private:
  void ask(RunView& run) {
    waits_ = false;
    const bool asks = run.rank() == run.world_size() - 1;  // one rank's wish is enough
    if (asks && wishes_.requeue) run.request_requeue("the nodes are wanted");
    if (asks && !wishes_.requeue) run.request_checkpoint();
    if (wishes_.stop) run.request_stop("saved");
  }
  Wishes wishes_;
  std::optional<StateDict>& saved_;
  std::string path_;
  std::int64_t batches_ = 0;
  bool waits_ = false;
};

/// What the metric loggers were given.
class Rows : public MetricLogger {
 public:
  explicit Rows(std::vector<std::string>& rows) : rows_(rows) {}
  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override {
    std::string row = std::to_string(epoch) + " " + std::to_string(step);
    for (const auto& [name, value] : metrics) {
      char number[40];
      std::snprintf(number, sizeof number, " %a", value);
      row += " " + std::string(name) + number;
    }
    rows_.push_back(row);
  }
  void flush() override {}

 private:
  std::vector<std::string>& rows_;
};

struct Case {
  std::string strategy;
  std::function<void(Options&)> prepare;
  std::string optimizer;
  OptimizerSetup setup;
  std::string precision;
  std::int64_t accumulate = 1;
  bool weight_averaging = true;
  int early_stopping_patience = 100;

  bool scales() const { return precision == "16-mixed" || precision == "O2"; }
};

struct Result {
  RunSummary summary;
  std::vector<std::string> rows;
  std::optional<StateDict> saved;
};

struct Start {
  const StateDict* checkpoint = nullptr;
  bool forgets = false;  ///< the model's own memory
};

/// This rank's state in a checkpoint whose files are whole.
StateDict read_back(const std::string& path) {
  World& world = test_world();
  const Manifest manifest = read_manifest(real_filesystem(), path);
  verify_files(real_filesystem(), path, manifest, world.rank(), world.size());
  StateDict state = CheckpointReader(real_filesystem(), path, manifest).state(world.rank());
  world.barrier();  // the folder is rank 0's
  return state;
}

Result train(const Case& what, Saver::Wishes wishes, Start start = {}) {
  const test::TempDir dir;
  const std::string checkpoint = test_world().broadcast(dir.path(), 0) + "/saved.ckpt";
  Options options = test::quiet(dir.path());
  TrainerOptions& trainer_options = options.trainer;
  trainer_options.num_sanity_val_steps = 2;
  trainer_options.max_epochs = kEpochs;
  trainer_options.logger = false;
  trainer_options.log_every_n_steps = 2;
  trainer_options.val_check_interval = BatchLimit{std::int64_t{4}};
  trainer_options.strategy = what.strategy;
  trainer_options.precision = what.precision == "O2" ? "16-mixed" : what.precision;
  if (what.precision == "O2") trainer_options.amp_level = "O2";
  trainer_options.accumulate_grad_batches = what.accumulate;
  trainer_options.gradient_clip_val = 1.0;
  trainer_options.reload_dataloaders_every_n_epochs = 2;
  trainer_options.stochastic_weight_avg = what.weight_averaging;
  options.callbacks = {
      {"early_stopping",
       {{"monitor", "val_loss"}, {"patience", std::to_string(what.early_stopping_patience)}}},
      {"lr_monitor", {}}};
  options.seed = 11;
  what.prepare(options);

  Result result;
  const bool resumes = start.checkpoint != nullptr;
  Trainer trainer(test_world(), options);
  const auto make_model = [&] {
    return std::make_unique<Forgetful>(what.setup, what.scales(), /*seed=*/resumes ? 99 : 1, start.forgets);
  };
  trainer.set_replica_factory(make_model);
  trainer.add_callback(std::make_unique<Saver>(wishes, result.saved, checkpoint));
  trainer.add_logger(std::make_unique<Rows>(result.rows));
  const std::unique_ptr<Forgetful> model = make_model();
  Growing data(kBatch, test_world().size());
  result.summary = resumes ? trainer.fit(*model, data, *start.checkpoint) : trainer.fit(*model, data);
  if (result.saved) {
    const StateDict from_disk = read_back(checkpoint);
    CHECK(first_difference(*result.saved, from_disk).empty());
    result.saved = from_disk;
  }
  return result;
}

/// The rows of an undisturbed training that come after those of its first part.
bool ends_with(const std::vector<std::string>& all, const std::vector<std::string>& end) {
  return end.size() <= all.size() && std::equal(end.rbegin(), end.rend(), all.rbegin());
}

void check_same_end(const Result& expected, const Result& resumed) {
  CHECK(resumed.summary.parameters_sha256 == expected.summary.parameters_sha256);
  CHECK(resumed.summary.global_step == expected.summary.global_step);
  CHECK(resumed.summary.epochs == expected.summary.epochs);
  CHECK(resumed.summary.metrics == expected.summary.metrics);
  CHECK(ends_with(expected.rows, resumed.rows));
}

struct StrategyCase {
  std::string name, described = name;
  std::function<void(Options&)> prepare = [](Options&) {};
  bool whole_parameters = true;  ///< on every rank, and with master weights
};

std::vector<StrategyCase> strategies() {
  std::vector<StrategyCase> all{{.name = "ddp"}};
  if (test_world().size() == 1) {
    all.push_back({.name = "single"});
    all.push_back({.name = "dp", .prepare = [](Options& options) {
                     options.trainer.accelerator = "cpu";
                     options.trainer.devices = "2";
                   }});
  } else {
    all.push_back({.name = "ddp", .described = "ddp, divided", .prepare = [](Options& options) {
                     options.strategy.args["shard_optimizer"] = "true";
                   }});
    all.push_back(
        {.name = "owner",
         .prepare = [](Options& options) { options.plugins = {CXTRAIN_TEST_PLUGIN_DIR "/owner.so"}; },
         .whole_parameters = false});
  }
  return all;
}

struct OptimizerCase {
  std::string name;
  OptimizerConfig config;
  bool of_libtorch = false;
  bool evaluates_loss = false;
};

std::vector<OptimizerCase> optimizers() {
  return {{"sgd", Sgd{.lr = 0.02}},
          {"sgd with momentum", Sgd{.lr = 0.02, .momentum = 0.9, .nesterov = true}},
          {"sgd with dampening", Sgd{.lr = 0.02, .momentum = 0.9, .dampening = 0.1}},
          {"adam", Adam{.lr = 0.01}},
          {"adam with amsgrad", Adam{.lr = 0.01, .weight_decay = 0.01, .amsgrad = true}},
          {"adamw", AdamW{.lr = 0.01}},
          {"rmsprop", rmsprop(0.01, 0.9, 0.5), true},
          {"adagrad", adagrad(0.05, 0.01), true},
          {"lbfgs", lbfgs(0.1, 3, 4), true, true}};
}

/// Where a training is saved: in turn in the middle of an epoch, of a step, of a validation, and at an
/// epoch's end.
Saver::Wishes place(std::size_t number) {
  const std::array<Saver::Wishes, 5> places{{{.after_batches = 17},
                                             {.after_batches = 31},
                                             {.after_batches = 27, .after_validation = true},
                                             {.after_batches = 25, .after_epoch = true},
                                             {.after_batches = 53}}};
  return places[number % places.size()];
}

/// Some schedule; the plateau's has a memory.
void set_schedule(OptimizerSetup& setup, std::size_t number) {
  switch (number % 3) {
    case 0:
      setup.schedule = PlateauSchedule{.monitor = "val_loss", .factor = 0.5, .patience = 0};
      return;
    case 1:
      setup.schedule = CosineSchedule{.warmup = 3};
      setup.interval = Interval::step;
      return;
    default:
      setup.schedule = ExponentialSchedule{.gamma = 0.8};
  }
}

double scale_of(const StateDict& state) {
  return state.section("optimization").section("grad_scaler").real("scale");
}

/// A case of the matrix; returns its name.
std::string resume_case(Case what, std::size_t number) {
  set_schedule(what.setup, number);
  CAPTURE(number, what.strategy, what.optimizer, what.precision, what.accumulate);
  const Result whole = train(what, place(number));
  REQUIRE(whole.saved.has_value());
  if (what.scales()) CHECK(scale_of(*whole.saved) < 65536);  // steps were skipped before
  check_same_end(whole, train(what, {}, {.checkpoint = &*whole.saved}));
  return what.precision + " x" + std::to_string(what.accumulate);
}

/// Every optimizer, precision and accumulation with this strategy.
void resume_with(std::size_t strategy_number) {
  if (test_world().size() > 3) return test::skip_for_ranks("it is as with 3, which takes long enough");
  const StrategyCase strategy = strategies().at(strategy_number);
  std::size_t number = strategy_number;
  for (const OptimizerCase& optimizer : optimizers()) {
    std::string done;
    for (const char* precision : {"32-true", "bf16-mixed", "16-mixed", "O2"}) {
      for (const std::int64_t accumulate : {1, 3}) {
        const Case what{.strategy = strategy.name,
                        .prepare = strategy.prepare,
                        .optimizer = optimizer.name,
                        .setup = {.optimizer = optimizer.config},
                        .precision = precision,
                        .accumulate = accumulate};
        // What the program refuses.
        if (optimizer.evaluates_loss && (what.scales() || accumulate > 1)) continue;
        if (!strategy.whole_parameters && (optimizer.of_libtorch || what.precision == "O2")) continue;
        if (strategy.name == "dp" && what.precision == "O2") continue;
        done += (done.empty() ? "" : ", ") + resume_case(what, number++);
      }
    }
    if (!test_world().is_root() || done.empty()) continue;
    std::printf("resume: %d ranks, %s, %s: %s\n", test_world().size(), strategy.described.c_str(),
                optimizer.name.c_str(), done.c_str());
  }
}

// Saved, and resumed on new objects, a training ends with the same bits.
TEST_CASE("every training can be resumed to the same bits: ddp", "[resume]") { resume_with(0); }
TEST_CASE("every training can be resumed to the same bits: single, or divided ddp", "[resume]") {
  resume_with(1);
}
TEST_CASE("every training can be resumed to the same bits: dp, or a rank for each parameter", "[resume]") {
  resume_with(2);
}

/// Adam in float16 with loss scaling, everything on.
Case everything() {
  const StrategyCase strategy = strategies().back();
  return {.strategy = strategy.name,
          .prepare = strategy.prepare,
          .optimizer = "adam",
          .setup = {.optimizer = Adam{.lr = 0.01},
                    .schedule = PlateauSchedule{.monitor = "val_loss", .factor = 0.5, .patience = 0}},
          .precision = "16-mixed",
          .accumulate = 3};
}

TEST_CASE("asking for a checkpoint, and stopping there, changes nothing in what comes", "[resume]") {
  const Case what = everything();
  const Result undisturbed = train(what, {});
  Saver::Wishes wishes = place(1);
  const Result asked = train(what, wishes);
  CHECK(asked.rows == undisturbed.rows);
  check_same_end(undisturbed, asked);

  wishes.stop = true;
  const Result first = train(what, wishes);
  REQUIRE(first.saved.has_value());
  CHECK(first.summary.global_step < undisturbed.summary.global_step);
  CHECK(first_difference(first.saved->section("optimization"), asked.saved->section("optimization")) == "");
  const Result second = train(what, {}, {.checkpoint = &*first.saved});
  check_same_end(undisturbed, second);
}

TEST_CASE("a training may be stopped and resumed again and again", "[resume]") {
  const Case what = everything();
  const Result undisturbed = train(what, {});
  std::optional<StateDict> state;
  Result part;
  for (const std::int64_t batches : {5, 14, 26, 36, 49, 0}) {
    part = train(what, {.after_batches = batches, .stop = true}, {.checkpoint = state ? &*state : nullptr});
    state = part.saved;
  }
  check_same_end(undisturbed, part);
}

TEST_CASE("a rank that wants the job started again makes all save, and end with status 75", "[resume]") {
  const Case what = everything();
  const Result undisturbed = train(what, {});
  const bool in_validation = GENERATE(false, true);
  const Result first = train(
      what, {.after_batches = in_validation ? 27 : 31, .after_validation = in_validation, .requeue = true});
  REQUIRE(first.saved.has_value());
  CHECK(first.summary.exit_code == 75);
  CHECK(first.summary.status == "stopped");
  CHECK(first.summary.global_step < undisturbed.summary.global_step);
  check_same_end(undisturbed, train(what, {}, {.checkpoint = &*first.saved}));
}

TEST_CASE("an early stop comes at the same step in a resumed training", "[resume]") {
  Case what = everything();
  what.precision = "32-true";
  what.weight_averaging = false;
  what.early_stopping_patience = 4;
  const auto before = what.prepare;
  const bool waits = GENERATE(false, true);
  what.prepare = [=](Options& options) {
    before(options);
    options.trainer.max_epochs = 12;
    if (waits) options.trainer.min_epochs = 11;  // it is asked for long before it may happen
  };
  what.setup.optimizer = Adam{.lr = 1e-5};
  const Result undisturbed = train(what, {});
  REQUIRE(undisturbed.summary.epochs < 12);
  for (const std::int64_t batches : {13, 25, 60}) {
    CAPTURE(waits, batches, undisturbed.summary.global_step);
    const Result whole = train(what, {.after_batches = batches});
    if (!whole.saved) continue;  // stopped before
    check_same_end(undisturbed, train(what, {}, {.checkpoint = &*whole.saved}));
  }
}

/// Every section of a state in turn: left out, it is missed; changed, it changes what comes of it.
TEST_CASE("no part of a state is idle", "[resume]") {
  const Case what = everything();
  const Result whole = train(what, place(1));
  REQUIRE(whole.saved.has_value());
  const auto without = [&](const std::string& left_out) {
    StateDict state;
    for (const auto& [name, section] : whole.saved->sections()) {
      if (name != left_out) state.make_section(name) = section.clone();
    }
    return state;
  };
  for (const auto& [name, section] : whole.saved->sections()) {
    CAPTURE(name);
    const StateDict state = without(name);
    CHECK_THROWS_WITH(train(what, {}, {.checkpoint = &state}), test::contains("lacks " + name));
  }
  CHECK(train(what, {}, {.checkpoint = &*whole.saved, .forgets = true}).summary.parameters_sha256 !=
        whole.summary.parameters_sha256);
  const auto changed = [&](const std::function<void(StateDict&)>& change) {
    StateDict state = whole.saved->clone();
    change(state);
    const Result resumed = train(what, {}, {.checkpoint = &state});
    return resumed.summary.parameters_sha256 != whole.summary.parameters_sha256 ||
           !ends_with(whole.rows, resumed.rows);
  };
  using State = StateDict;
  CHECK(changed([](State& s) {
    at::Generator other = at::globalContext().defaultGenerator(at::kCPU).clone();
    other.set_current_seed(1234);
    at::Tensor(s.section("generators").tensor("cpu")).copy_(other.get_state());
  }));
  const auto optimization = [](State& s) -> State& { return s.make_section("optimization"); };
  CHECK(changed([&](State& s) { optimization(s).make_section("lr_schedule").set("factor", 0.9); }));
  CHECK(changed([&](State& s) { optimization(s).make_section("grad_scaler").set("scale", 2.0); }));
  CHECK(changed([](State& s) { s.make_section("loop").set("seed", 5); }));
  CHECK(changed([](State& s) {
    s.make_section("metrics").make_section("0").make_section("epoch").set("weight", 3.0);
  }));
  CHECK(changed([](State& s) { s.make_section("model").set("frozen", "first.weight\n"); }));
}

TEST_CASE("a state of another training is refused on all ranks, and says why", "[resume]") {
  const Case what = everything();
  const Result whole = train(what, place(1));
  REQUIRE(whole.saved.has_value());
  const auto refused = [&](const Case& other, const StateDict& state, const std::string& why) {
    CHECK_THROWS_WITH(train(other, {}, {.checkpoint = &state}), test::contains(why));
  };
  Case other = what;
  other.precision = "32-true";
  refused(other, *whole.saved, "has a loss scale: it was saved by a training of another precision");
  other = what;
  other.setup.optimizer = Sgd{.lr = 0.1, .momentum = 0.9};
  refused(other, *whole.saved, "the saved state lacks momentum_buffer.first.weight");
  other = what;
  other.prepare = [&](Options& options) {
    what.prepare(options);
    options.data.batch_size = 4;
  };
  refused(other, *whole.saved, "the saved state stands in the middle of an epoch of");
  StateDict state = whole.saved->clone();
  state.make_section("model").set("training_modes", "11");
  refused(what, state, "that of another model: it has 2 modules, this one 6");
}

}  // namespace
}  // namespace cxtrain
