#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/callbacks/train_state.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/device_loader.h"
#include "cxtrain/trainer/generators.h"
#include "cxtrain/trainer/hooks.h"
#include "cxtrain/trainer/metric_rows.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/step_vote.h"
#include "cxtrain/trainer/training_clock.h"

namespace cxtrain {

/// While it lives, what is logged is treated by a hook's rule. Samples count as those of the surrounding
/// scope, or as one where a hook logs a value of its own, outside of any batch.
class LogScope {
 public:
  LogScope(MetricStore& metrics, const LogRule& rule)
      : LogScope(metrics, rule, metrics.scope().rule != nullptr ? metrics.scope().samples : 1) {}
  LogScope(MetricStore& metrics, const LogRule& rule, std::int64_t samples)
      : metrics_(metrics), outer_(metrics.scope()) {
    metrics.enter({&rule, samples});
  }
  ~LogScope() { metrics_.enter(outer_); }
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  MetricStore& metrics_;
  MetricStore::Scope outer_;
};

/// What was found out before training, in place of what the user or the model says.
struct Tuned {
  std::optional<double> lr;
  std::optional<std::int64_t> batch_size;  ///< per rank
};

/// What the loops of one run share: the parts, the training state, the metrics, and the hooks. Lives on one
/// thread.
class TrainContext {
 public:
  struct Parts {
    World& world;
    const Options& options;
    const Plan& plan;
    Module& module;
    DataModule& data;
    Strategy& strategy;
    at::Device device;
    Generators& generators;                     ///< this rank's
    std::optional<at::ScalarType> input_dtype;  ///< floating-point inputs are converted to it
    Filesystem& files;                          ///< the files of `log_dir`
    std::string log_dir = {};                   ///< empty: nothing is written
  };
  explicit TrainContext(Parts parts);
  TrainContext(const TrainContext&) = delete;
  TrainContext& operator=(const TrainContext&) = delete;

  /// Calls the hooks of `callback`, which outlives the context, after those of the callbacks before it.
  void add_callback(Callback& callback) { callbacks.push_back(&callback); }
  /// The same with a callback that ends with the context.
  void add_callback(std::unique_ptr<Callback> callback) {
    add_callback(*callback);
    own_callbacks_.push_back(std::move(callback));
  }

  /// Runs a hook (`hooks::on_...`): of every callback, then of the module. What it logs is treated by its
  /// rule, with the weight of what surrounds it.
  template <class... C, class ModuleHook, class... Args>
  void call(const Hook<void (Callback::*)(Run&, C...), ModuleHook>& hook, Args&&... args) {
    const PhaseScope phase(Phase::hooks);
    const LogScope scope(metrics, hook.rule);
    for (Callback* const callback : callbacks) (callback->*hook.callback)(run, args...);
    if constexpr (!std::is_null_pointer_v<ModuleHook>) (parts.module.*hook.module)(args...);
  }
  /// `on_train_epoch_end`: of the callbacks that do not monitor, and the module. Then the epoch's metrics are
  /// reduced, and it is the turn of the callbacks that monitor. Returns the epoch's metrics. Collective.
  MetricStore::Values end_train_epoch();

  /// Throws `ending`, on all ranks, if a rank has a reason to leave at once: in a fit that saves its state
  /// later, SIGINT or SIGTERM; else any reason to end the run. Collective.
  void leave_if_asked();
  /// The exception by which all ranks leave a run that ends by `vote`. `is_saved`: its state can be
  /// loaded again.
  Interrupted ending(const StepVote& vote, bool is_saved) const;

  /// Seconds spent on training batches; of a run that does not train, all since the run began.
  double training_seconds() const;
  /// Stops the count of these seconds once the rank's devices are idle.
  void pause_training();
  /// Waits until the rank's devices are idle, so that a clock measures their work.
  void wait_for_devices() const;
  /// Of a training that is resumed: where it stands, the seconds that it has taken, and what it was tuned to.
  void save_place(StateDict& place) const;
  void load_place(const StateDict& place);
  /// As on the command line; a program's own model, which may have no name there, by its class.
  std::string model_name() const;
  /// Where the run is, for error messages: "epoch 1, step 230".
  std::string where() const;

  Parts parts;
  TrainState state;
  Progress progress;
  MetricStore metrics;
  Requests requests;                 ///< of this rank
  SavedCheckpoints saved;            ///< that this rank has seen
  Run run;                           ///< what callbacks and modules see of all this
  std::vector<Callback*> callbacks;  ///< in the order in which their hooks are called; `add_callback` adds
  SteadyClock clock;
  TrainingClock training_clock{clock};
  MetricRows rows;
  DeviceLoader batches;
  StepVoting voting;
  bool saves_state = false;  ///< reasons to end the run wait for a place where its state can be saved
  bool resumed = false;      ///< `load_place` was called
  Tuned tuned;
  double first_step_seconds = 0;

 private:
  std::vector<std::unique_ptr<Callback>> own_callbacks_;
};

}  // namespace cxtrain
