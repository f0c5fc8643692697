#pragma once

#include <optional>
#include <string>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/device_loader.h"
#include "cxtrain/trainer/generators.h"
#include "cxtrain/trainer/hook_caller.h"
#include "cxtrain/trainer/metric_rows.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/step_vote.h"

namespace cxtrain {

/// What was found out before training, in place of what the user or the model says.
struct Tuned {
  std::optional<double> lr;
  std::optional<std::int64_t> batch_size;  ///< per rank
};

/// The seconds of a run: since it began, and those spent on training batches, without validations and the
/// hooks of fits and epochs.
class TrainingClock {
 public:
  /// `clock` outlives it.
  explicit TrainingClock(const Clock& clock) : clock_(clock), began_(clock.now()) {}

  void restart() { began_ = clock_.now(); }
  double seconds_since_start() const { return clock_.now() - began_; }

  /// Starts and stops the count of training seconds. A second call in a row has no effect.
  void resume() {
    if (!running_since_) running_since_ = clock_.now();
  }
  void pause() {
    trained_ = seconds_trained();
    running_since_.reset();
  }
  bool running() const { return running_since_.has_value(); }
  double seconds_trained() const { return trained_ + (running_since_ ? clock_.now() - *running_since_ : 0); }
  /// Continues the count of an earlier run.
  void set_seconds_trained(double seconds) { trained_ = seconds; }

  /// Seconds from the start of the program to the end of the first step; 0 before.
  double first_step_seconds() const { return first_step_seconds_; }
  void set_first_step_seconds(double seconds) { first_step_seconds_ = seconds; }

 private:
  const Clock& clock_;
  double began_;
  double trained_ = 0;
  double first_step_seconds_ = 0;
  std::optional<double> running_since_;
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
  void leave_if_asked(bool saves_state) {
    const StepVote vote = voting.vote();
    if (saves_state ? vote.sigint || vote.sigterm : vote.ends_run()) throw ending(vote, /*is_saved=*/false);
  }
  /// The exception by which all ranks leave a run that ends by `vote`. `is_saved`: its state can be
  /// loaded again.
  Interrupted ending(const StepVote& vote, bool is_saved) const {
    return ending_of(vote, requests, std::string(word_of(parts.options.trainer.requeue_signal)), is_saved);
  }

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
  std::string where() const {
    return "epoch " + std::to_string(state.epoch) + ", step " + std::to_string(state.global_step);
  }

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
