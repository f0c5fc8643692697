#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/log.h"
#include "cxtrain/base/stage.h"
#include "cxtrain/base/stop_signals.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/report/metric_logger.h"
#include "cxtrain/report/model_summary.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/session_folder.h"
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
  const SessionFolder& folder() const { return folder_; }
  const Plan& plan() const { return inputs_.plan; }
  const std::string& config_text() const { return config_text_; }

  /// Makes the optimizers of the module in `context`, a run of this session. Collective.
  std::unique_ptr<Optimization> make_optimization(TrainContext& context,
                                                  const std::vector<NamedOptimizer>& setups,
                                                  const FitLimits& limits) const;

  /// Gives the model to this session's run (again, after a trial run had it).
  void attach();

  /// Closes the books: summary, run.json, loggers, and whether all ranks hold the same parameters, which
  /// is logged and written down where they do not. Collective.
  RunSummary finish();
  /// The same, unchecked, for a run that a signal has stopped, with its exit status. Runs `on_exception` of
  /// the callbacks, and writes the files before it reads all parameters: there may be no time for more. Every
  /// rank calls it.
  RunSummary stop(const Interrupted& signal);
  /// Runs `on_exception` of the callbacks, and writes what is known when the run fails. Not collective.
  void fail(const std::exception& error) noexcept;
  /// Writes what is known, on any thread.
  void fail(int exit_code) noexcept;

 private:
  std::unique_ptr<CommHook> make_comm_hook() const;
  void make_replicas();
  void choose_recomputation();
  void place_model();
  void make_context();
  void open_folder();
  /// The files and loggers of the run, and what is said of it at its beginning.
  void write_files();
  void make_plan_loggers();
  RunSummary summary(const char* status, int exit_code) const;
  void close_loggers() const noexcept;

  const SessionInputs inputs_;
  TrainerState& state_;
  std::string config_text_;  ///< of `config.yaml`
  Module& module_;
  DataModule& data_;
  Stage stage_;
  bool continues_;         ///< what a fit has begun
  bool goes_on_in_place_;  ///< in the folder of a run that had ended
  PrecisionPolicy precision_;
  std::vector<std::unique_ptr<Module>> replicas_;
  StrategyContext strategy_context_;
  std::vector<LayerRow> layers_;  ///< before the strategy connects: it may leave a rank with a part of them
  SessionFolder folder_;
  std::optional<Generators> generators_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<TrainContext> context_;
  std::optional<StopSignals> signals_;
};

}  // namespace cxtrain
