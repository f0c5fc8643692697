#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/checkpoint/checkpoint_reader.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/run_files.h"
#include "support/state_difference.h"
#include "support/toy_models.h"

/// Trainings that are saved and resumed through the disk, and what they have to agree in.
namespace cxtrain::test::resume {

inline constexpr std::int64_t kSamples = 96, kBatch = 8, kEpochs = 5;  ///< samples of each rank

/// A metric with rows and a sum.
class Losses : public Metric {
 public:
  void update(const at::Tensor& loss, const at::Tensor&) override {
    const Updating updating(*this);
    append(rows_, loss.reshape({1}));
    sum_ += loss;
  }
  at::Tensor compute() const override { return rows_.square().sum().add(sum_); }

 private:
  at::Tensor& rows_ = add_state("rows", at::zeros({0}), Reduce::cat);
  at::Tensor& sum_ = add_state("sum", at::zeros({}, at::kDouble));
};

/// A model that has everything that a resumed training can get wrong: dropout, noise in its inputs, batch
/// norm, layers that are frozen at first, a layer whose mode a hook changes, gradients that overflow now and
/// then, and a memory of its own that its loss depends on.
class StatefulModel : public ChainModule {
 public:
  StatefulModel(OptimizerSetup setup, bool overflows, std::uint64_t seed, bool forgets)
      : setup_(std::move(setup)), overflows_(overflows), forgets_(forgets) {
    at::manual_seed(seed);
    add_block("first", torch::nn::Linear(6, 24));
    add_block("norm", torch::nn::BatchNorm1d(24));
    add_block("tanh", torch::nn::Tanh());
    add_block("dropout", torch::nn::Dropout(0.25));
    late = add_block("late", torch::nn::Linear(24, 24));
    quiet = add_block("quiet", torch::nn::BatchNorm1d(24));
    add_block("last", torch::nn::Linear(24, 2));
    for (at::Tensor& parameter : late->parameters()) parameter.set_requires_grad(false);
    seen_ = at::zeros({});
  }
  void on_after_batch_transfer(Batch& batch, BatchContext& context) override {
    if (context.stage() != Stage::fit) return;
    const at::Tensor& input = batch[0];
    batch.tensors[0] = input + 0.1 * at::randn(input.sizes(), context.generator(), input.options());
  }
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    at::Tensor loss = torch::nn::functional::mse_loss(run_blocks(batch).tensor().to(at::kFloat),
                                                      of_all_loaders(batch, 1).to(at::kFloat));
    loss = loss * (1 + 0.01 * static_cast<double>(batches_ % 7)) + 0.001 * seen_.item<double>() * loss;
    log("train_loss", loss, {.on_step = true, .on_epoch = true});
    losses_.update(loss, {});
    log("losses", losses_, {.on_step = true, .on_epoch = true});
    if (overflows_ && current_epoch() < 2 && batch_idx % 4 == 1) loss = loss * 1e38;
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss",
        torch::nn::functional::mse_loss(run_blocks(batch).tensor().to(at::kFloat), batch[1].to(at::kFloat)));
  }
  Optimizers configure_optimizers() override { return setup_; }

  void on_train_epoch_start() override {
    if (current_epoch() != 2) return;
    for (at::Tensor& parameter : late->parameters()) parameter.set_requires_grad(true);
    quiet->eval();
  }
  void on_train_batch_end(const StepOutput& output, const Batch&, std::int64_t) override {
    ++batches_;
    const at::Tensor& loss = output.loss;
    if (loss.defined() && loss.isfinite().item<bool>() && loss.item<double>() < 100)
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

  torch::nn::Linear late{nullptr};
  torch::nn::BatchNorm1d quiet{nullptr};

 private:
  Carry inputs(const Batch& batch) override { return Carry(of_all_loaders(batch, 0)); }
  static at::Tensor of_all_loaders(const Batch& batch, std::size_t tensor) {
    if (batch.parts.empty()) return batch[tensor];
    std::vector<at::Tensor> rows;
    for (const Batch::Part& part : batch.parts) rows.push_back(batch.part(part.name)[tensor]);
    return at::cat(rows);
  }

  OptimizerSetup setup_;
  bool overflows_, forgets_;
  std::int64_t batches_ = 0;
  at::Tensor seen_;
  Losses& losses_ = register_metric<Losses>("losses");
};

/// Other samples whenever its training data are asked for.
class GrowingData : public DataModule {
 public:
  /// `more`: samples that the ranks' batches do not divide.
  GrowingData(std::int64_t batch_size, int ranks, std::int64_t more)
      : batch_size_(batch_size), ranks_(ranks), more_(more) {}
  void setup(Stage, const DataOptions&) override {}
  Loaders train_dataloader() override {
    return {samples(kSamples * ranks_ + more_, 10 + asked_++), batch_size_, true};
  }
  Loaders val_dataloader() override { return {samples(16 * ranks_, 5), batch_size_}; }
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
  std::int64_t more_, asked_ = 0;
};

/// Asks for the state of the training when it has seen so many batches, in the middle of a step or not, and
/// keeps it. Counts on when a training is resumed.
class Saver : public Callback {
 public:
  struct Schedule {
    std::int64_t after_batches = 0;  ///< of the training; 0: never
    bool after_validation = false;   ///< with the next one's end
    bool after_epoch = false;        ///< with the epoch's end
    bool stop = false;               ///< ... and to stop
    bool requeue = false;            ///< ... or to be started again
    bool term = false;               ///< SIGTERM comes when the next validation begins
  };
  /// `path`: the same on all ranks.
  Saver(Schedule schedule, std::optional<StateDict>& saved, std::string path)
      : schedule_(schedule), saved_(saved), path_(std::move(path)) {}

  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    if (++batches_ != schedule_.after_batches) return;
    waits_ = true;
    if (!schedule_.after_validation && !schedule_.after_epoch && !schedule_.term) ask(run);
  }
  void on_validation_start(Run& run) override {
    if (!waits_ || !schedule_.term) return;
    waits_ = false;
    at::rand({1});  // as if the validation had come some way
    if (run.rank() == run.world().size() - 1) raise(SIGTERM);
  }
  void on_validation_end(Run& run) override {
    if (waits_ && schedule_.after_validation) ask(run);
  }
  void on_train_epoch_end(Run& run) override {
    if (waits_ && schedule_.after_epoch) ask(run);
  }
  void on_checkpoint(Run& run, const StateDict& state) override {
    saved_ = state.clone();
    CHECK(run.progress().ends_with_checkpoint == (schedule_.requeue || schedule_.term));
  }
  std::optional<CheckpointPlan> plan_checkpoint(Run&, const CheckpointOccasion&) override {
    return CheckpointPlan{.path = path_};
  }
  void on_save_checkpoint(StateDict& state) override { state.set("batches", batches_); }
  void on_load_checkpoint(const StateDict& state) override { batches_ = state.integer("batches"); }

 private:
  void ask(Run& run) {
    waits_ = false;
    const bool asks = run.rank() == run.world().size() - 1;  // one rank's wish is enough
    if (asks && schedule_.requeue) run.request_requeue("the nodes are wanted");
    if (asks && !schedule_.requeue) run.request_checkpoint();
    if (schedule_.stop) run.request_stop("saved");
  }
  Schedule schedule_;
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
  std::int64_t epochs = kEpochs;
  bool weight_averaging = true;
  int early_stopping_patience = 100;
  std::int64_t more_samples = 0;                           ///< than the ranks' batches divide
  std::int64_t val_every = 4;                              ///< batches
  bool own_buffers = false;                                ///< ranks have other values in them
  std::function<std::unique_ptr<DataModule>()> data = {};  ///< empty: `GrowingData`

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
inline StateDict read_back(const std::string& path) {
  World& world = test_world();
  const Manifest manifest = read_manifest(real_filesystem(), path);
  verify_files(real_filesystem(), path, manifest, world.rank(), world.size());
  StateDict state = CheckpointReader(real_filesystem(), path, manifest).state(world.rank());
  world.barrier();  // the folder is rank 0's
  return state;
}

inline Result train(const Case& what, Saver::Schedule schedule, Start start = {}) {
  const TempDir dir;
  const std::string checkpoint = test_world().broadcast(dir.path(), 0) + "/saved.ckpt";
  Options options = quiet(dir.path());
  TrainerOptions& trainer_options = options.trainer;
  trainer_options.num_sanity_val_steps = 2;
  trainer_options.max_epochs = what.epochs;
  trainer_options.logger = false;
  trainer_options.log_every_n_steps = 2;
  trainer_options.val_check_interval = BatchLimit{what.val_every};
  trainer_options.strategy = what.strategy;
  trainer_options.precision = what.precision == "O2" ? "16-mixed" : what.precision;
  if (what.precision == "O2") trainer_options.amp_level = "O2";
  trainer_options.accumulate_grad_batches = what.accumulate;
  if (!needs_closure(what.setup.optimizer)) trainer_options.gradient_clip_val = 1.0;
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
    return std::make_unique<StatefulModel>(what.setup, what.scales(), /*seed=*/resumes ? 99 : 1,
                                           start.forgets);
  };
  trainer.set_replica_factory(make_model);
  trainer.add_callback(std::make_unique<Saver>(schedule, result.saved, checkpoint));
  trainer.add_logger(std::make_unique<Rows>(result.rows));
  const std::unique_ptr<StatefulModel> model = make_model();
  const std::unique_ptr<DataModule> data =
      what.data ? what.data() : std::make_unique<GrowingData>(kBatch, test_world().size(), what.more_samples);
  result.summary =
      resumes ? trainer.fit(*model, *data, ResumeFrom{*start.checkpoint}) : trainer.fit(*model, *data);
  // Rank 0 has the rows; every rank compares them.
  World& world = test_world();
  result.rows = from_message<std::vector<std::string>>(world.broadcast(to_message(result.rows)));
  // Steps that were left to train have left rows.
  if (resumes && start.checkpoint->section("loop").integer("global_step") < result.summary.global_step)
    CHECK_FALSE(result.rows.empty());
  if (result.saved) {
    const StateDict from_disk = read_back(checkpoint);
    if (!what.own_buffers) CHECK(first_difference(*result.saved, from_disk).empty());
    result.saved = from_disk;
  }
  return result;
}

/// The rows of an undisturbed training that come after those of its first part.
inline bool ends_with(const std::vector<std::string>& all, const std::vector<std::string>& end) {
  return end.size() <= all.size() && std::equal(end.rbegin(), end.rend(), all.rbegin());
}

inline void check_same_end(const Result& expected, const Result& resumed) {
  CHECK(resumed.summary.parameters_sha256 == expected.summary.parameters_sha256);
  CHECK(resumed.summary.global_step == expected.summary.global_step);
  CHECK(resumed.summary.epochs == expected.summary.epochs);
  CHECK(resumed.summary.metrics == expected.summary.metrics);
  CHECK(ends_with(expected.rows, resumed.rows));
}

struct StrategyCase {
  std::string name, described = name;
  std::function<void(Options&)> prepare = [](Options&) {};
  bool whole_updates = true;   ///< LibTorch's own optimizers can run
  bool master_weights = true;  ///< has them (O2)
  bool closures = true;        ///< an optimizer may ask for the loss again
};

inline std::vector<StrategyCase> strategies() {
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
    all.push_back({.name = "zero",
                   .prepare =
                       [](Options& options) {
                         options.strategy.args = {{"stage", "3"}, {"bucket_bytes", "2000"}};
                       },
                   .whole_updates = false});
    all.push_back({.name = "zero",
                   .described = "zero, gathered",
                   .prepare =
                       [](Options& options) {
                         options.strategy.args = {{"parameters", "all"}, {"bucket_bytes", "2000"}};
                       },
                   .whole_updates = false,
                   .closures = false});
    all.push_back({.name = "pipeline",
                   .prepare =
                       [](Options& options) {
                         // Two columns.
                         if (test_world().size() > 3) options.strategy.args["stages"] = "2";
                       },
                   .closures = false});
    all.push_back(
        {.name = "owner",
         .prepare = [](Options& options) { options.plugins = {CXTRAIN_TEST_PLUGIN_DIR "/owner.so"}; },
         .whole_updates = false,
         .master_weights = false});
  }
  return all;
}

struct OptimizerCase {
  std::string name;
  OptimizerConfig config;
  bool of_libtorch = false;
  bool evaluates_loss = false;
};

inline std::vector<OptimizerCase> optimizers() {
  return {{"sgd", Sgd{.lr = 0.02}},
          {"sgd with momentum", Sgd{.lr = 0.02, .momentum = 0.9, .nesterov = true}},
          {"sgd with dampening", Sgd{.lr = 0.02, .momentum = 0.9, .dampening = 0.1}},
          {"adam", Adam{.lr = 0.01}},
          {"adam with amsgrad", Adam{.lr = 0.01, .weight_decay = 0.01, .amsgrad = true}},
          {"adamw", AdamW{.lr = 0.01}},
          {"rmsprop", Rmsprop{.lr = 0.01, .alpha = 0.9, .momentum = 0.5}, true},
          {"adagrad", Adagrad{.lr = 0.05, .lr_decay = 0.01}, true},
          {"lbfgs", Lbfgs{.lr = 0.1, .max_iter = 3, .history_size = 4}, true, true}};
}

/// Some schedule; the plateau's has a memory.
inline void set_schedule(OptimizerSetup& setup, std::size_t number) {
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

}  // namespace cxtrain::test::resume
