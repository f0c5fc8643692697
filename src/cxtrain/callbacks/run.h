#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>

#include "cxtrain/base/stage.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/metrics/metric_sink.h"
#include "cxtrain/optim/optimizer_ref.h"
#include "cxtrain/report/run_loggers.h"

namespace torch::nn {
class Module;
}

namespace cxtrain {

struct Plan;
class Filesystem;
class MetricStore;
class Strategy;

/// Where a training stands. The order of the data is a pure function of (seed, epoch, batch), and schedules
/// that follow no metric are one of (epoch, global_step).
struct TrainState {
  std::int64_t epoch = 0;        ///< epochs completed
  std::int64_t batch = 0;        ///< micro-batches done in the current epoch
  std::int64_t global_step = 0;  ///< optimizer steps done
  std::int64_t samples = 0;      ///< trained on, over all ranks
  bool validation_due = false;   ///< after the last batch: it was begun, and left for a signal
  std::uint64_t seed = 0;
};

/// The running loop: an epoch of training, or an evaluation.
struct Progress {
  Stage stage = Stage::fit;                 ///< the trainer's call; `fit` in its validations, too
  std::int64_t batch_idx = 0;               ///< within the epoch, or the evaluation
  std::int64_t num_batches = 0;             ///< in the epoch, or the evaluation, on this rank; -1: unknown
  int dataloader_idx = 0;                   ///< of loaders that are read in turn: the current one
  std::int64_t samples_per_batch = 0;       ///< of the last batch, over all ranks
  std::int64_t samples_per_step = 0;        ///< of a full optimizer step, over all ranks and micro-batches
  std::int64_t accumulate = 1;              ///< micro-batches of an optimizer step
  std::int64_t max_epochs = -1;             ///< -1: no limit
  std::int64_t max_steps = -1;              ///< -1: no limit
  std::int64_t log_every_n_steps = 0;       ///< interval between rows of metrics; 0: never
  bool validates_at_epoch_end_only = true;  ///< or never
  bool sanity_checking = false;
  bool stepped = true;                ///< in `on_train_batch_end`: the batch has ended with an optimizer step
  bool epoch_is_complete = true;      ///< in `on_train_epoch_end`; false: the training stops within the epoch
  bool samples_on_every_rank = true;  ///< in each batch of the loop; false if that is not known (streams)
  /// The run ends with the checkpoint in preparation: a callback that saves the state by itself must wait
  /// until its file is complete. Equal on all ranks.
  bool ends_with_checkpoint = false;
  OptimizerList* optimizers = nullptr;  ///< null before the optimizers are made
  /// A request that not all ranks make takes effect after the next step, rather than after the current one.
  bool votes_within_step = false;
};

/// The ranks that make a request.
enum class RequestedBy {
  a_rank,     ///< at least one rank
  all_ranks,  ///< every rank, at the same step
};

/// The requests of this rank: of its callbacks, its module, its clock. A request stands until the ranks have
/// voted and the loop has carried it out.
struct Requests {
  bool stop = false;                                    ///< end the training after this step
  bool checkpoint = false;                              ///< give the state of the training to the callbacks
  bool save = false;                                    ///< write a checkpoint to the disk
  bool requeue = false;                                 ///< save, end, and be started again
  bool validation = false;                              ///< validate after this step
  bool stop_on_all = false, checkpoint_on_all = false;  ///< requested by all ranks, which need no vote
  std::string stop_reason = {}, requeue_reason = {};    ///< of the first request
};

/// Counts the states of a fit that can be read back from the disk, on this rank.
struct SavedCheckpoints {
  std::int64_t count = 0;
  std::optional<double> longest_seconds = {};  ///< the longest save

  /// A state can be read back from the disk. `seconds`: duration of the save, from `on_checkpoint` on.
  void add(double seconds) {
    ++count;
    longest_seconds = std::max(seconds, longest_seconds.value_or(0));
  }
};

/// A run as modules and callbacks see it, and the requests that they may make: Lightning's `trainer` in a
/// hook. Every rank calls a collective method at the same point of the run.
///
/// A test of a callback makes a run of values: `RunOfValues` (callbacks/run_of_values.h).
class Run {
 public:
  struct Parts {
    World& world;
    torch::nn::Module& module;
    const Plan& plan;
    const std::string& log_dir;
    Filesystem& files;
    Strategy* strategy;
    MetricStore& metrics;
    RunLoggers& loggers;
    const TrainState& state;
    const Progress& progress;
    Requests& requests;
    SavedCheckpoints& saved;
  };
  /// All parts outlive the run.
  explicit Run(const Parts& parts) : parts_(parts) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  int rank() const { return parts_.world.rank(); }  ///< Lightning's global_rank
  /// The ranks: their number (`size`) and facts, and collectives for hooks (`sum`, `broadcast`,
  /// `all_gather`).
  World& world() const { return parts_.world; }
  /// The model in training.
  torch::nn::Module& module() const { return parts_.module; }
  /// Returns the model in training under its own type: `run.module<MyModel>()`. Throws TrainingError if the
  /// model has another type.
  template <class Model>
  Model& module() const {
    if (auto* const model = dynamic_cast<Model*>(&parts_.module)) return *model;
    refuse_model(typeid(Model));
  }
  /// How the ranks and devices share the training; null in a run of values.
  Strategy* strategy() const { return parts_.strategy; }
  /// The decisions about ranks, devices and precision, made before the run.
  const Plan& plan() const { return parts_.plan; }
  /// The run's folder, equal on all ranks; empty if nothing is written.
  const std::string& log_dir() const { return parts_.log_dir; }
  /// The file system that the run reads and writes.
  Filesystem& files() const { return parts_.files; }

  std::int64_t current_epoch() const { return parts_.state.epoch; }
  std::int64_t global_step() const { return parts_.state.global_step; }  ///< optimizer steps done
  /// The running loop: its batch, its length, its limits.
  const Progress& progress() const { return parts_.progress; }
  /// The optimizers of the fit, in the order of `configure_optimizers`; empty before they are made.
  std::span<OptimizerRef* const> optimizers() const;

  /// Returns the latest value logged under this name. A value logged on_step is this rank's own. May
  /// synchronise with the device.
  std::optional<double> metric(std::string_view name) const;
  /// All logged values. For decisions that are equal on all ranks: `metrics().last_of_all_ranks(name,
  /// world())`.
  MetricStore& metrics() const { return parts_.metrics; }
  /// Logs a value as `Module::log` would in the hook of that name.
  void log(std::string_view name, double value, const LogOptions& options = {});
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options = {});
  /// The loggers, for images and texts: `loggers().log_image("samples", image)`.
  RunLoggers& loggers() const { return parts_.loggers; }

  // The ranks agree on requests, so that a request on one rank is enough. A request takes effect after the
  // current step; over several nodes, and on several ranks with GPUs, after the next step, because the
  // request travels with that step's gradients. A request that all ranks make (`RequestedBy::all_ranks`)
  // takes effect after the current step everywhere.

  /// Ends training.
  void request_stop(std::string reason, RequestedBy by = RequestedBy::a_rank);
  /// Requests the state of the training, which every callback then gets (`Callback::on_checkpoint`).
  void request_checkpoint(RequestedBy by = RequestedBy::a_rank);
  /// Requests the state for a run that must end and start again, as when a batch system takes its nodes. The
  /// callbacks get the state, then the run ends on every rank. The exit status is 75 (`ExitCode::requeue`) if
  /// the state was saved, else 143 (`ExitCode::terminated`).
  void request_requeue(std::string reason);
  /// Requests a checkpoint on the disk, independent of any callback's schedule.
  void request_save() { parts_.requests.save = true; }

  /// The states that this rank has seen saved. A callback that saves states by itself adds to them in
  /// `on_checkpoint`, on one rank at least.
  SavedCheckpoints& saved_checkpoints() const { return parts_.saved; }

 private:
  [[noreturn]] void refuse_model(const std::type_info& wanted) const;

  Parts parts_;
};

}  // namespace cxtrain
