#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxtrain/callbacks/train_state.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/metrics/metric_sink.h"
#include "cxtrain/optim/optimizer_ref.h"

namespace torch::nn {
class Module;
}

namespace cxtrain {

struct Plan;
class Filesystem;
class MetricStore;
class Strategy;

/// The running loop: an epoch of training, or an evaluation.
struct Progress {
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
  /// The run ends with the checkpoint in preparation: a callback that saves the state by itself must wait
  /// until its file is complete. Equal on all ranks.
  bool ends_with_checkpoint = false;
  at::Tensor step_output = {};          ///< `Run::step_output`
  OptimizerList* optimizers = nullptr;  ///< null before the optimizers are made
};

/// The requests of this rank: of its callbacks, its module, its clock. A request stands until the ranks have
/// voted and the loop has carried it out.
struct Requests {
  bool stop = false;                                  ///< end the training after this step
  bool checkpoint = false;                            ///< give the state of the training to the callbacks
  bool save = false;                                  ///< write a checkpoint to the disk
  bool requeue = false;                               ///< save, end, and be started again
  bool validation = false;                            ///< validate after this step
  std::string stop_reason = {}, requeue_reason = {};  ///< of the first request
};

/// Counts the states of a fit that can be read back from the disk, on this rank.
struct SavedCheckpoints {
  std::int64_t count = 0;
  std::optional<double> longest_seconds = {};  ///< the longest save

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
    Strategy* strategy;  ///< null: each rank keeps a whole model; `parameter_checksums` is empty
    MetricStore& metrics;
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
  int world_size() const { return parts_.world.size(); }
  /// The ranks: their facts, and collectives for hooks (`sum`, `broadcast`, `all_gather`).
  World& world() const { return parts_.world; }
  /// The model in training. `run.module_as<MyModel>()` returns it under its own type.
  torch::nn::Module& module() const { return parts_.module; }
  template <class Model>
  Model& module_as() const {
    return dynamic_cast<Model&>(module());
  }
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
  /// Output of the last step. In training: the loss, detached; undefined if the batch was skipped. In a
  /// prediction: the output of `predict_step`. In an evaluation: undefined.
  const at::Tensor& step_output() const { return parts_.progress.step_output; }
  /// The optimizers of the fit, in the order of `configure_optimizers`; empty before they are made.
  std::span<OptimizerRef* const> optimizers() const;
  /// One entry for each parameter group of the optimizers; empty before the optimizers are made.
  std::vector<LearningRate> learning_rates() const;

  /// Returns the latest value logged under this name. A value logged on_step is this rank's own. May
  /// synchronise with the device.
  std::optional<double> metric(std::string_view name) const;
  /// Returns the latest value, equal on every rank, for decisions. If each rank has its own value, returns
  /// their mean. Collective.
  std::optional<double> metric_of_all_ranks(std::string_view name) const;
  /// All logged values: their names, and those of the progress bar.
  MetricStore& metrics() const { return parts_.metrics; }
  /// Logs a value as `Module::log` would in the hook of that name.
  void log(std::string_view name, double value, const LogOptions& options = {});
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options = {});

  /// Ends training after the current step, on several ranks with GPUs after the next step. The ranks agree on
  /// the stop, so a request on one rank is enough.
  void request_stop(std::string reason);
  /// Requests the state of the training, which every callback then gets (`Callback::on_checkpoint`). A
  /// request on one rank is enough.
  void request_checkpoint() { parts_.requests.checkpoint = true; }
  /// Requests the state for a run that must end and start again, as when a batch system takes its nodes. The
  /// callbacks get the state, then the run ends on every rank. The exit status is 75 (`ExitCode::requeue`) if
  /// the state was saved, else 143 (`ExitCode::terminated`). A request on one rank is enough.
  void request_requeue(std::string reason);
  /// Requests a checkpoint on the disk, independent of any callback's schedule. A request on one rank is
  /// enough.
  void request_save() { parts_.requests.save = true; }

  /// Reports that a state can be read back from the disk. A callback that saves states by itself calls it in
  /// `on_checkpoint`, on one rank at least, for the state that it got there or for an earlier state.
  /// `seconds`: duration of the save, from `on_checkpoint` on.
  void checkpoint_saved(double seconds) { parts_.saved.add(seconds); }
  /// The states that this rank has seen saved.
  const SavedCheckpoints& saved_checkpoints() const { return parts_.saved; }

  /// Returns whether each rank keeps a whole model between two steps (`Strategy::ranks_keep_whole_models`).
  bool ranks_keep_whole_models() const;
  /// Returns the name of each parameter of the model and a checksum of this rank's values, in the order of
  /// the model. Between two steps the result is equal on all ranks. Empty if a rank keeps no whole model
  /// (`Strategy::ranks_keep_whole_models`). Reads the whole model, from GPUs through host memory. Collective.
  std::vector<std::pair<std::string, std::string>> parameter_checksums() const;

 private:
  Parts parts_;
};

}  // namespace cxtrain
