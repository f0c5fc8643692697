#pragma once

#include <optional>
#include <string>

#include "cxtrain/base/clock.h"
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
#include "cxtrain/trainer/hook_caller.h"
#include "cxtrain/trainer/metric_rows.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/step_vote.h"
#include "cxtrain/trainer/training_clock.h"

namespace cxtrain {

/// What was found out before training, in place of what the user or the model says.
struct Tuned {
  std::optional<double> lr;
  std::optional<std::int64_t> batch_size;  ///< per rank
};

/// What the loops of one run share: its parts, where it stands, and the objects that call its hooks, read its
/// batches, write its rows and vote for its ranks. Lives on one thread.
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

  /// Throws `ending`, on all ranks, if a rank has a reason to leave at once: any reason to end the run, or,
  /// in a fit that saves its state later (`saves_state`), SIGINT or SIGTERM. Collective.
  void leave_if_asked(bool saves_state);
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
  Requests requests;       ///< of this rank
  SavedCheckpoints saved;  ///< that this rank has seen
  Run run;                 ///< what callbacks and modules see of all this
  SteadyClock clock;
  TrainingClock training_clock{clock};
  MetricRows rows;
  DeviceLoader batches;
  StepVoting voting;
  Tuned tuned;
  HookCaller hooks;  ///< the last member: callbacks may refer to all others until they end
};

}  // namespace cxtrain
