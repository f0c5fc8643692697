#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/base/log.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cluster/world.h"
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

class DataLoader;
class Filesystem;
class Session;
enum class Stage;
struct TrainerState;

/// Where a training stood, for another one that goes on from there.
struct ResumeFrom {
  const StateDict& state;    ///< as a callback was given it on a rank of this number
  std::string log_dir = {};  ///< the folder of the run that saved it; empty: it wrote nothing
  bool in_place = false;     ///< in that folder, instead of a new one
  std::string data = {};     ///< fingerprint of the data that it had; empty: any will do
};

/// What an evaluation may be asked for.
struct EvaluateArgs {
  /// A checkpoint: "best" or "last" of the trainer's own fit (without one: of the newest run), or its path.
  /// The model takes the checkpoint's values. Empty: the values that the model has, or, where nothing was
  /// trained, those that `Options::ckpt_path` means.
  std::string ckpt_path = {};
};

/// A call of a Trainer was left out, since a signal had ended the call before. Carries the status that the
/// program is to end with, which `run_trainer` does where this leaves the user's function.
class StoppedBefore : public Error {
 public:
  using Error::Error;
};

/// Trains, evaluates and predicts: Lightning's Trainer.
///
///     cxtrain::Trainer trainer(world, {.precision = "bf16-mixed", .max_epochs = 3});
///     trainer.fit(model, data);
///
/// Every rank makes one, with the same options, and calls the same methods. Errors are thrown as they happen;
/// a rank that catches one must end the job (`run_main` does, with `World::abort`), since the others wait for
/// it.
class Trainer {
 public:
  /// Decides where everything runs (`plan()`). Throws ConfigError with every reason why it cannot.
  /// Strategies that `registry` lacks are looked for in plugins.
  Trainer(World& world, Options options, Registry registry = {});
  Trainer(World& world, TrainerOptions options);
  /// The same with a plan that was made before, which has no errors. Callbacks and loggers are those that the
  /// plan names, and those that are added. `accelerator`: of the plan's devices, where they are not CUDA's;
  /// it outlives the trainer.
  Trainer(World& world, Options options, Plan plan, Registry registry, Accelerator* accelerator = nullptr);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Added to those that the options name.
  void add_callback(std::unique_ptr<Callback> callback);
  /// The same with a callback that is made here; it lives as long as the trainer.
  ///
  ///     auto& best = trainer.add_callback<ModelCheckpoint>(ModelCheckpoint::Options{.monitor = "val_loss"});
  ///     trainer.fit(model, data);
  ///     use(best.best_model_path());
  template <class Made, class... Arguments>
  Made& add_callback(Arguments&&... arguments) {
    auto callback = std::make_unique<Made>(std::forward<Arguments>(arguments)...);
    Made& made = *callback;
    add_callback(std::move(callback));
    return made;
  }
  void add_logger(std::unique_ptr<MetricLogger> logger);

  /// How `dp` comes to the replicas of the model that it keeps besides the one that it is given: a new model
  /// of the same class, built from the same arguments. Other strategies need none.
  ///
  ///     trainer.set_replica_factory([] { return std::make_unique<MyModel>(); });
  void set_replica_factory(std::function<std::unique_ptr<Module>()> factory) {
    replica_factory_ = std::move(factory);
  }

  /// What the first model that this trainer is given goes through before anything else, such as loading
  /// weights. Every rank calls it for itself.
  void set_initialize(std::function<void(Module&)> initialize) { initialize_ = std::move(initialize); }

  /// Sweeps the learning rate from the model as it is, and leaves everything as it was; the curve is written
  /// to lr_find.csv in the run's folder. `fit` does this first, and trains with the suggestion, with
  /// `auto_lr_find`.
  LrFinderResult lr_find(Module& module, DataModule& data, const LrSweep& sweep = {});
  /// The largest batch size per rank that trains; `fit` does this first, and uses it, with
  /// `auto_scale_batch_size`.
  std::int64_t scale_batch_size(Module& module, DataModule& data, const BatchSizeSearch& search = {});

  /// Each sets the data up, runs, writes the run's files (rank 0) and returns what run.json says. While one
  /// runs, SIGINT, SIGTERM and `requeue_signal` end it at the next step of all ranks, with status "stopped",
  /// once its state has been given to the callbacks (a second SIGINT or SIGTERM ends the process at once);
  /// the hooks of the end are not called then, as in Lightning. Whatever is called after that throws
  /// StoppedBefore.
  RunSummary fit(Module& module, DataModule& data);
  /// Goes on where a fit stood when a callback was given its state (`Callback::on_checkpoint`), to the same
  /// bits as if that fit had gone on: with the same options, model, data and number of ranks, each rank with
  /// the state that it had. The sanity check is left out, and nothing is tuned. Throws StateError where the
  /// state belongs to a training of another kind.
  RunSummary fit(Module& module, DataModule& data, const StateDict& checkpoint);
  /// The same with the files of metrics that the run had written: they go on without a gap or a repeat. What
  /// it wrote after the state was saved is cut off where the run goes on in place; a new folder begins with a
  /// copy of the rest.
  RunSummary fit(Module& module, DataModule& data, const ResumeFrom& from);
  /// With the values that the model has, or those of a checkpoint.
  RunSummary validate(Module& module, DataModule& data, const EvaluateArgs& args = {});
  RunSummary test(Module& module, DataModule& data, const EvaluateArgs& args = {});
  /// Outputs of this rank's shard are in `predictions()`, and in predictions_rank_K.pt in the run's folder.
  RunSummary predict(Module& module, DataModule& data, const EvaluateArgs& args = {});
  const Predictions& predictions() const { return predictions_; }
  /// What the last call returned.
  const std::optional<RunSummary>& last_summary() const { return last_summary_; }

  const Plan& plan() const { return plan_; }
  at::Device device() const { return device_; }
  /// Where the run writes; empty without a logger.
  const std::string& log_dir() const;
  /// Where the run is, or was when it failed: "epoch 1, step 230"; empty before the first.
  std::string where() const;
  /// Where the run's files are; the operating system's files if this is not called. It outlives the trainer.
  void set_filesystem(Filesystem& files) { files_ = &files; }
  /// The log that gets a file in the run's folder; it outlives the trainer.
  void set_log(Log& log) { log_ = &log; }
  /// The text of `config.yaml` in the run's folder; none is written without it.
  void set_config_text(std::string yaml) { config_text_ = std::move(yaml); }

 private:
  /// Sets the data up, opens a session, runs `work` in it and closes the books, however it ends. `log_dir`:
  /// the folder that a fit goes on in; empty: a new one. `args`: of an evaluation.
  RunSummary in_session(Stage stage, Module& module, DataModule& data,
                        const std::function<void(Session&)>& work, const std::string& log_dir = {},
                        const EvaluateArgs& args = {});
  /// Gives the model the values of the checkpoint that `args` or the options mean, where they mean one.
  void load_values_to_evaluate(Stage stage, Module& module, const EvaluateArgs& args);
  void refuse_after_signal(Stage stage) const;
  void initialize_once(Module& module);
  /// Throws ConfigError where CUDA's numbers mean other GPUs than the plan's.
  void require_planned_devices() const;
  /// Runs what trains or evaluates. Where this rank alone fails, on a device, the job ends here, while all
  /// that the caller holds still stands: taking apart what is on a device that has failed may hang or end the
  /// process, and the other ranks wait.
  void run_loop(Session& session, const std::function<void()>& loop) const;
  /// Whether other ranks would wait for this one, which may have lost its device.
  bool ends_job(const std::exception& error) const;
  /// Closes the session's books; ends the job where `ends_job`.
  void fail(Session& session, const std::exception& error) const;
  /// `from`: null for a beginning. `taken` is called when its state is needed no longer.
  RunSummary fit_from(const ResumeFrom* from, Module& module, DataModule& data,
                      const std::function<void()>& taken = {});
  RunSummary evaluate_once(Module& module, DataModule& data, bool test, const EvaluateArgs& args);
  /// The loader of a stage's data. Throws ConfigError where there is none, on all ranks alike.
  std::unique_ptr<DataLoader> agreed_loader(Session& session, const std::function<DataLoaderSpec()>& spec,
                                            const char* lacks);

  World& world_;
  Options options_;
  Plan plan_;
  at::Device device_{at::kCPU};
  Accelerator* accelerator_ = nullptr;  ///< of `device_`; null on CPUs
  Registry registry_;
  std::function<std::unique_ptr<Module>()> replica_factory_;
  std::function<void(Module&)> initialize_;  ///< empty once it was called
  std::unique_ptr<TrainerState> state_;
  Predictions predictions_;
  std::optional<RunSummary> last_summary_;
  Filesystem* files_;
  Log* log_ = nullptr;
  std::string config_text_;
};

}  // namespace cxtrain
