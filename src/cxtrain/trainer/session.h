#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/log.h"
#include "cxtrain/base/stage.h"
#include "cxtrain/base/stop_signals.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/report/metric_logger.h"
#include "cxtrain/report/model_summary.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/predictions.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// What a run is made from. All of it outlives the session.
struct SessionInputs {
  World& world;
  const Options& options;
  const Plan& plan;
  const Registry& registry;        ///< has what the plan names
  at::Device device;               ///< this rank's, or its first
  Accelerator* accelerator;        ///< null on CPUs
  const std::string& config_text;  ///< of `config.yaml`, without the hyperparameters; empty: none is written
  const std::function<std::unique_ptr<Module>()>& replica_factory;  ///< may be empty
  Filesystem& files;                                                ///< where the run's files are
  Log* log = nullptr;                                               ///< gets a file in the run's folder
  std::string log_dir = {};  ///< the folder that a fit goes on in; empty: it makes a new one
};

/// State of a Trainer that outlives a call of `fit`, `validate`, `test` or `predict`. A session reads and
/// writes it.
struct TrainerState {
  std::vector<std::unique_ptr<Callback>> callbacks;    ///< the user's
  std::vector<std::unique_ptr<MetricLogger>> loggers;  ///< the user's
  Tuned tuned;
  std::string log_dir;                    ///< of the last fit, or of what runs; empty: nothing is written
  const TrainContext* running = nullptr;  ///< null outside of a call
  std::string failed_at;                  ///< where the last call failed: "epoch 1, step 230"

  // Of the last fit, for the calls after it.
  std::optional<TrainState> fitted;
  RunSummary fitted_summary;
  std::vector<std::unique_ptr<MetricLogger>> plan_loggers;  ///< of the run's folder, on rank 0
};

/// One call of `Trainer::fit`, `validate`, `test` or `predict`, from placing the model to the run's files.
/// Opened once, and closed by one of `finish`, `stop` and `fail`. Gives back what it has of the trainer's,
/// however far it came.
class Session {
 public:
  /// The model and the data outlive the session. A fit is a run of its own. A call after it continues in its
  /// folder, at the step that it reached.
  Session(const SessionInputs& inputs, TrainerState& state, std::unique_ptr<Strategy> strategy,
          Module& module, DataModule& data, Stage stage);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Makes the run's folder, places the model, and gathers callbacks and loggers. Signals are noted from then
  /// on (`StopSignals`). Where a run goes on in its folder, the folder is taken and nothing is written yet:
  /// the state may be refused, and the run's files must then be what they were. Collective.
  void open();
  /// From then on the run's files are written; for a fit that goes on in its folder, once nothing can refuse
  /// the state any more. Collective.
  void begin_files();

  /// The others are for an open session.
  TrainContext& context() { return *context_; }
  const Plan& plan() const { return inputs_.plan; }
  const std::string& config_text() const { return config_text_; }
  const PrecisionPolicy& precision() const { return precision_; }

  /// Returns the loader of training batches, of this rank's shards. Null without data. `batch_size`: other
  /// than the options'.
  std::unique_ptr<DataLoader> training_loader(const Loaders& loaders,
                                              std::optional<std::int64_t> batch_size = {}) const;
  std::vector<std::unique_ptr<DataLoader>> evaluation_loaders(const Loaders& loaders, Stage stage) const;
  FitData::Loaders fit_loaders(DataModule& data) const;
  /// Makes the optimizers of the module in `context`, a run of this session. Collective.
  std::unique_ptr<Optimization> make_optimization(TrainContext& context,
                                                  const std::vector<NamedOptimizer>& setups,
                                                  const FitLimits& limits) const;

  /// Gives the model to this session's run (again, after a trial run had it).
  void attach();

  /// Writes a file of the run's folder as a whole, on rank 0, where there is a folder. A file that cannot be
  /// written is logged and left out.
  void write_file(const std::string& name, const std::string& content) const noexcept;

  /// Writes this rank's predictions of each loader into the run's folder.
  void write_predictions(const std::vector<Predictions>& predictions) const noexcept;

  /// Closes the books: summary, run.json, loggers, and whether all ranks hold the same parameters, which
  /// is logged and written down where they do not. Collective.
  RunSummary finish();
  /// The same, unchecked, for a run that a signal has stopped, with its exit status. The files come first:
  /// there may be no time for more. Every rank calls it.
  RunSummary stop(const Interrupted& signal);
  /// Calls `on_exception` of the callbacks.
  void tell(const std::exception& error) noexcept;
  /// Writes what is known when the run fails; never throws. Not collective.
  void fail(int exit_code) noexcept;

 private:
  std::unique_ptr<CommHook> make_comm_hook() const;
  void make_replicas();
  void choose_recomputation();
  void open_log_dir();
  void open_files();
  /// The files and loggers of the run, and what is said of it at its beginning.
  void add_loggers_and_announce();
  RunSummary summary(const char* status, int exit_code) const;
  void compare_parameters(RunSummary& summary) const;
  void close_loggers() const noexcept;
  /// A rank without samples runs no forward pass, which the other ranks' batch norms would wait for.
  void require_samples_everywhere(const ShardedSampler& sampler) const;
  /// `batch_size`: other than the options'.
  ShardedSampler sampler_of(const DataLoaderSpec& spec, bool training,
                            std::optional<std::int64_t> batch_size = {}) const;
  std::int64_t batch_size_of(const DataLoaderSpec& spec, std::optional<std::int64_t> batch_size) const;
  DataShard shard() const;
  std::unique_ptr<DataLoader> stream_loader(const DataLoaderSpec& spec, const LoaderOptions& options,
                                            std::optional<std::int64_t> batch_size = {}) const;
  LoaderOptions loader_options(const DataLoaderSpec& spec, Stage stage, std::size_t dataloader_idx) const;
  void add_callbacks();
  void make_plan_loggers();
  Hyperparameters hyperparameters() const;
  void announce() const;
  bool writes_files() const;
  void record_places() const;

  const SessionInputs inputs_;
  TrainerState& state_;
  std::string config_text_;  ///< of `config.yaml`
  Module& module_;
  DataModule& data_;
  Stage stage_;
  bool continues_;         ///< what a fit has begun
  bool goes_on_in_place_;  ///< in the folder of a run that had ended
  bool files_begun_ = false;
  PrecisionPolicy precision_;
  std::vector<std::unique_ptr<Module>> replicas_;
  StrategyContext strategy_context_;
  std::vector<LayerRow> layers_;  ///< before the strategy connects: it may leave a rank with a part of them
  std::optional<Generators> generators_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<TrainContext> context_;
  std::unique_ptr<FileLock> lock_;  ///< on the run's folder
  std::optional<StopSignals> signals_;
};

}  // namespace cxtrain
