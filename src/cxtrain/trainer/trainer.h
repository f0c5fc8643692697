#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/stage.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/report/metric_logger.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/predictions.h"
#include "cxtrain/trainer/tuning.h"

namespace cxtrain {

class Filesystem;
class Session;
struct LoadedCheckpoint;
struct TrainerState;

/// Position of a training, for another training that resumes there.
struct ResumeFrom {
  const StateDict& state;    ///< the state that a callback got on the rank of this number
  std::string log_dir = {};  ///< folder of the run that saved it; empty: it wrote nothing
  bool in_place = false;     ///< continue in that folder, instead of a new one
  std::string data = {};     ///< fingerprint of its data; empty: any data are accepted
};

/// Arguments of a fit.
struct FitArgs {
  /// The checkpoint to resume: "last" or "best" of the trainer's fit before (without a fit: of the newest
  /// run), "auto" ("last", and a new run without a checkpoint), or its path. Empty: `Options::ckpt_path` in
  /// the first fit of the trainer, and the model as it is in later ones.
  std::string ckpt_path = {};
};

/// Arguments of an evaluation.
struct EvaluateArgs {
  /// A checkpoint: "best" or "last" of the trainer's own fit (without a fit: of the newest run), or its path.
  /// The model takes the checkpoint's values. Empty: the model's own values or, if nothing was trained, the
  /// checkpoint in `Options::ckpt_path`.
  std::string ckpt_path = {};
};

/// Where a trainer writes, if not as usual. What it points to outlives the trainer.
struct TrainerOutputs {
  Filesystem* files = nullptr;  ///< of the run's files; null: the operating system's
  Log* log = nullptr;           ///< gets a file in the run's folder; null: none does
  /// `config.yaml` in the run's folder; empty: none is written. The hyperparameters of a model that the
  /// options do not name are added.
  std::string config_yaml = {};
};

/// Thrown by a call of a Trainer that was left out because a signal had ended the call before. Carries the
/// exit status for the program; `run` exits with this status if the error leaves the user's function.
class StoppedBefore : public Error {
 public:
  using Error::Error;
};

/// Trains, evaluates and predicts: Lightning's Trainer.
///
///     cxtrain::Trainer trainer(world, {.precision = "bf16-mixed", .max_epochs = 3});
///     trainer.fit(model, data);
///
/// Every rank makes a Trainer, with equal options, and makes the same calls. Errors are thrown as they
/// happen. A rank that catches an error must end the job (`run_main` does, with `World::abort`), because the
/// other ranks wait for it.
class Trainer {
 public:
  /// Decides where everything runs (`plan()`). Throws ConfigError with every reason why it cannot. Strategies
  /// that `registry` lacks are searched in plugins.
  Trainer(World& world, Options options, Registry registry = {});
  Trainer(World& world, TrainerOptions options);
  /// Uses a plan that was made before and has no errors. Callbacks and loggers are the plan's and the added
  /// ones. `accelerator`: for the plan's devices, if they are not CUDA's; it must outlive the trainer.
  Trainer(World& world, Options options, Plan plan, Registry registry, Accelerator* accelerator = nullptr);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Adds a callback to the callbacks that the options name.
  void add_callback(std::unique_ptr<Callback> callback);
  /// Makes a callback and adds it; it lives as long as the trainer. Throws ConfigError for arguments outside
  /// of the limits of their fields.
  ///
  ///     auto& best = trainer.add_callback<ModelCheckpoint>({.monitor = "val_loss"});
  ///     trainer.fit(model, data);
  ///     use(best.best_model_path());
  template <class Made>
  requires requires { typename Made::Args; }
  Made& add_callback(typename Made::Args args = {}) {
    return add_made<Callback>(made_with<Made>(std::move(args)));
  }
  template <class Made, class... Arguments>
  requires(!requires { typename Made::Args; }) Made& add_callback(Arguments&&... arguments) {
    return add_made<Callback>(std::make_unique<Made>(std::forward<Arguments>(arguments)...));
  }
  /// Adds a logger to the loggers that the options name. Every rank adds it; rank 0 writes to it.
  void add_logger(std::unique_ptr<MetricLogger> logger);
  /// Makes a logger and adds it, as `add_callback` does with a callback.
  template <class Made>
  requires requires { typename Made::Args; }
  Made& add_logger(typename Made::Args args = {}) {
    return add_made<MetricLogger>(made_with<Made>(std::move(args)));
  }
  template <class Made, class... Arguments>
  requires(!requires { typename Made::Args; }) Made& add_logger(Arguments&&... arguments) {
    return add_made<MetricLogger>(std::make_unique<Made>(std::forward<Arguments>(arguments)...));
  }

  /// Sets the factory of `dp` for the replicas that it keeps besides the given model: a new model of its
  /// class, built from equal arguments. Other strategies need no factory.
  ///
  ///     trainer.set_replica_factory([] { return std::make_unique<MyModel>(); });
  void set_replica_factory(std::function<std::unique_ptr<Module>()> factory) {
    replica_factory_ = std::move(factory);
  }

  /// Makes a model (Lightning's `Trainer.init_module`). If the strategy divides the parameters (`zero` with
  /// stage 3, `pipeline`) and the model is a `BlockModule`, a rank builds one block at a time, and keeps its
  /// own part. Otherwise a rank builds the whole model. The values are the same either way: those of
  /// `Options::model_weights`, or those that the constructor draws.
  ///
  ///     const auto model = trainer.init_module<Gpt>(GptArgs{.layers = 48});
  ///     trainer.fit(*model, data);
  ///
  /// The constructor runs up to three times, once without memory for values. Each time LibTorch's CPU
  /// generator starts from rank 0's state. Where ranks have parts, only calls of this trainer can use the
  /// model (docs/larger_models.md). Throws AgreedError if memory does not suffice, if the weights cannot be
  /// read or do not fit, or if ranks have drawn different values. Collective.
  template <class Model, class... Arguments>
  std::unique_ptr<Model> init_module(const Arguments&... arguments) {
    std::unique_ptr<Module> made = init_module([&] { return std::make_unique<Model>(arguments...); });
    return std::unique_ptr<Model>(static_cast<Model*>(made.release()));
  }
  /// `make` makes the whole model.
  std::unique_ptr<Module> init_module(const std::function<std::unique_ptr<Module>()>& make);

  /// Sweeps the learning rate from the model as it is, and leaves everything as it was. Writes the curve to
  /// lr_find.csv in the run's folder. With `auto_lr_find`, `fit` does this first and trains with the
  /// suggestion.
  LrFinderResult lr_find(Module& module, DataModule& data, const LrSweep& sweep = {});
  /// Returns the largest batch size per rank that trains. With `auto_scale_batch_size`, `fit` does this first
  /// and uses the result.
  std::int64_t scale_batch_size(Module& module, DataModule& data, const BatchSizeSearch& search = {});

  /// Each sets the data up, runs, writes the run's files (rank 0) and returns the content of run.json.
  ///
  /// During a run, SIGINT, SIGTERM and `requeue_signal` end it at the next step of all ranks, with status
  /// "stopped", once the callbacks have got its state. The hooks of the end are not called then, as in
  /// Lightning. A second SIGINT or SIGTERM ends the process at once. Any later run throws StoppedBefore.
  RunSummary fit(Module& module, DataModule& data, const FitArgs& args = {});
  /// Resumes a fit from the state that a callback got (`Callback::on_checkpoint`), bit-for-bit as if that fit
  /// had continued. Needs equal options, model, data and number of ranks, and on each rank the state of that
  /// rank. Leaves the sanity check and tuning out. Throws StateError if the state belongs to a training of
  /// another kind.
  ///
  /// With the folder of the run that saved the state, the metric files of that run continue without a gap or
  /// a repeat. In place, rows that were written after the state was saved are cut off; a new folder begins
  /// with a copy of the rest.
  RunSummary fit(Module& module, DataModule& data, const ResumeFrom& from);
  /// Evaluates the model with its own values, or with the values of a checkpoint.
  RunSummary validate(Module& module, DataModule& data, const EvaluateArgs& args = {});
  RunSummary test(Module& module, DataModule& data, const EvaluateArgs& args = {});
  /// Predicts. The outputs of this rank's shard are in `predictions()`, and in predictions_rank_K.pt in the
  /// run's folder; of several loaders in `predictions(dataloader_idx)`, and in a file for each loader.
  /// `predictions` throws std::out_of_range for a loader that the last prediction did not have.
  RunSummary predict(Module& module, DataModule& data, const EvaluateArgs& args = {});
  const Predictions& predictions(std::size_t dataloader_idx = 0) const;
  /// The result of the last call.
  const std::optional<RunSummary>& last_summary() const { return last_summary_; }

  const Plan& plan() const { return plan_; }
  /// The folder that the run writes; empty without a logger.
  const std::string& log_dir() const;
  /// Position of the run, or of its failure: "epoch 1, step 230"; empty before the first run.
  std::string where() const;
  void set_outputs(TrainerOutputs outputs) { outputs_ = std::move(outputs); }

 private:
  template <class Made>
  static std::unique_ptr<Made> made_with(typename Made::Args args) {
    if constexpr (HasFields<typename Made::Args>) require_fields(args);
    return std::make_unique<Made>(std::move(args));
  }
  template <class Base, class Made>
  Made& add_made(std::unique_ptr<Made> component) {
    Made& made = *component;
    if constexpr (std::same_as<Base, MetricLogger>)
      add_logger(std::unique_ptr<MetricLogger>(std::move(component)));
    else
      add_callback(std::unique_ptr<Callback>(std::move(component)));
    return made;
  }

  /// A call of the trainer. `log_dir`: folder in which a fit continues; empty: a new folder. `evaluate`: for
  /// an evaluation or a prediction.
  struct Call {
    Stage stage;
    Module& module;
    DataModule& data;
    std::string log_dir = {};
    EvaluateArgs evaluate = {};
  };
  /// Sets the data up, opens a session, calls `work` with it, and closes the session on every path. What
  /// `work` owns ends before the session.
  RunSummary run(const Call& call, std::function<void(Session&)> work);
  /// `from`: the training to resume; absent: a new one.
  RunSummary run_fit(Module& module, DataModule& data, std::optional<LoadedCheckpoint> from);
  /// Gives the model the values of the checkpoint in the call or the options, if there is one.
  void load_values_to_evaluate(const Call& call);
  /// Prepares the data on one rank of each node, and sets them up on every rank.
  void open_data(const Call& call);
  void refuse_after_signal(Stage stage) const;
  /// Throws ConfigError, on all ranks, if this rank has a part of the model that belongs to another plan.
  void require_own_parts(const Module& module);
  /// Gives the first model the weights that the options name.
  void load_weights_once(Module& module);
  /// Throws ConfigError if CUDA's numbers mean other GPUs than the plan's.
  void require_planned_devices() const;
  /// The file system of the run's files.
  Filesystem& files() const;
  /// The folder of the trainer's last fit, whose checkpoints "last" and "best" mean; empty without a fit.
  std::string own_run() const;
  /// Closes the session after an error. If only this rank fails, on a device, ends the
  /// job: destructors that touch a failed device may hang or end the process, and the other ranks wait.
  void fail(Session& session, const std::exception& error);

  World& world_;
  Options options_;
  Plan plan_;
  at::Device device_{at::kCPU};
  Accelerator* accelerator_ = nullptr;  ///< for `device_`; null on CPUs
  Registry registry_;
  std::function<std::unique_ptr<Module>()> replica_factory_;
  bool weights_are_loaded_ = false;  ///< those that the options name, into the first model
  std::set<const Module*> made_;     ///< models that `init_module` has made
  std::unique_ptr<TrainerState> state_;
  std::vector<Predictions> predictions_ = std::vector<Predictions>(1);  ///< of each loader
  std::optional<RunSummary> last_summary_;
  TrainerOutputs outputs_;
};

}  // namespace cxtrain
