#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxtrain/metrics/metric_sink.h"

namespace torch::nn {
class Module;
}

namespace cxtrain {

struct Plan;
class Filesystem;
class StateDict;

/// A checkpoint to write (`Run::save_checkpoint`).
struct SaveRequest {
  std::string path;           ///< its folder; replaces a checkpoint of this name once the new one is complete
  bool weights_only = false;  ///< the model only, without the state that a resume needs
  std::vector<std::string> remove = {};  ///< checkpoints to remove once this one is complete
  std::string link = {};  ///< name of a link beside the checkpoint, which then leads to it; empty: none
  /// Called on every rank at the end of a later step, or of the training. `saved`: the checkpoint was
  /// written.
  std::function<void(bool saved)> then = {};
};

/// The learning rate of one parameter group.
struct LearningRate {
  std::string optimizer;  ///< "Adam", or "Adam/pg1" if there are several groups
  double value = 0;
};

/// A running training as modules and callbacks see it, and the requests that they may make. Every rank calls
/// a collective method at the same point of the run.
class Run {
 public:
  virtual ~Run() = default;

  virtual int rank() const = 0;  ///< Lightning's global_rank
  virtual int local_rank() const = 0;
  virtual int world_size() const = 0;
  /// The model in training. `run.module_as<MyModel>()` returns it under its own type.
  virtual torch::nn::Module& module() const = 0;
  template <class Model>
  Model& module_as() const {
    return dynamic_cast<Model&>(module());
  }
  /// The decisions about ranks, devices and precision, made before the run.
  virtual const Plan& plan() const = 0;
  /// The run's folder, equal on all ranks; empty if nothing is written.
  virtual const std::string& log_dir() const = 0;
  virtual std::int64_t current_epoch() const = 0;
  virtual std::int64_t global_step() const = 0;        ///< optimizer steps done
  virtual std::int64_t batch_idx() const = 0;          ///< within the epoch, or the evaluation
  virtual std::int64_t num_batches() const = 0;        ///< in the epoch, or the evaluation, on this rank
  virtual std::int64_t max_epochs() const = 0;         ///< -1: no limit
  virtual std::int64_t max_steps() const = 0;          ///< -1: no limit
  virtual std::int64_t samples_per_batch() const = 0;  ///< over all ranks
  /// Returns whether validations run only at the end of every epoch, or never.
  virtual bool validates_at_epoch_end_only() const = 0;
  /// Interval between rows of metrics, in steps; 0: never.
  virtual std::int64_t log_every_n_steps() const = 0;
  virtual double elapsed_seconds() const = 0;  ///< since training began
  virtual bool sanity_checking() const = 0;

  /// Output of the last step. In training: the loss, detached; undefined if the batch was skipped. In a
  /// prediction: the output of `predict_step`. In an evaluation: undefined.
  virtual const at::Tensor& step_output() const = 0;

  /// Returns the latest value logged under this name. A value logged on_step is this rank's own. May
  /// synchronise with the device.
  virtual std::optional<double> metric(std::string_view name) const = 0;
  /// Returns the latest value, equal on every rank, for decisions. If each rank has its own value, returns
  /// their mean. Collective.
  virtual std::optional<double> metric_of_all_ranks(std::string_view name) = 0;
  /// The names of all values logged so far.
  virtual std::vector<std::string> metric_names() const = 0;
  /// The values logged with `prog_bar`, in the order of first logging. May synchronise with the device.
  virtual std::vector<std::pair<std::string, double>> progress_bar_metrics() const = 0;
  /// Like `progress_bar_metrics`, without a wait for a device: the newest values that have come from it.
  virtual std::vector<std::pair<std::string, double>> progress_bar_metrics_so_far() = 0;
  /// One entry for each parameter group of the optimizer; empty before the optimizer is made.
  virtual std::vector<LearningRate> learning_rates() const = 0;

  /// Logs a value as `Module::log` would in the hook of that name.
  virtual void log(std::string_view name, double value, const LogOptions& options = {}) = 0;
  virtual void log(std::string_view name, const at::Tensor& value, const LogOptions& options = {}) = 0;
  /// Sums the values element-wise over all ranks, in place. Collective; all ranks pass an equal length.
  virtual void sum_over_ranks(std::span<double> values) = 0;
  /// Ends training after the current step, on several ranks with GPUs after the next step. The ranks agree on
  /// the stop, so a request on one rank is enough.
  virtual void request_stop(std::string reason) = 0;
  /// Requests the state of the training, which every callback then gets (`Callback::on_checkpoint`). A
  /// request on one rank is enough.
  virtual void request_checkpoint() = 0;
  /// Requests the state for a run that must end and start again, as when a batch system takes its nodes. The
  /// callbacks get the state, then the run ends on every rank. The exit status is 75 (`ExitCode::requeue`) if
  /// a callback has saved the state (`checkpoint_saved`), else 143 (`ExitCode::terminated`). A request on one
  /// rank is enough.
  virtual void request_requeue(std::string reason) = 0;
  /// Requests a checkpoint on the disk, independent of any callback's schedule. A callback that writes
  /// checkpoints claims the request (`take_save_request`). A request on one rank is enough.
  virtual void request_save() = 0;
  /// Claims a request to save, or to requeue, that caused the state in preparation. Returns whether there was
  /// an unclaimed request. Call it in `on_save_checkpoint`, on every rank; the result is equal on all ranks.
  virtual bool take_save_request() = 0;
  /// Reserves a path for the checkpoint in preparation. Returns false if another callback has reserved this
  /// path before, at this step. Call it in `on_save_checkpoint`, on the rank that chooses the path.
  virtual bool reserve_path(const std::string& path) = 0;
  /// Writes the state that `on_checkpoint` got to the disk, in the background: the tensors are copied when
  /// this returns. The ranks share the work. Collective; all ranks pass an equal path. Waits for an earlier
  /// checkpoint that is not on the disk yet. Errors are logged, and training continues.
  virtual void save_checkpoint(const StateDict& state, SaveRequest request) = 0;
  /// Returns rank 0's text on every rank, for decisions about the content of the disk. Collective.
  virtual std::string of_rank_zero(std::string text) = 0;
  /// Returns every rank's text, in rank order. Collective.
  virtual std::vector<std::string> of_all_ranks(const std::string& text) = 0;
  /// Returns the name of each parameter of the model and a checksum of this rank's values, in the order of
  /// the names. Between two steps the result is equal on all ranks. Empty if a rank keeps no whole model
  /// (`Strategy::ranks_keep_whole_models`). Reads the whole model, from GPUs through host memory. Collective.
  virtual std::vector<std::pair<std::string, std::string>> parameter_checksums() = 0;
  /// The file system that the run reads and writes.
  virtual Filesystem& files() = 0;

  /// Reports that a state can be read back from the disk. A callback calls it in `on_checkpoint`, on one rank
  /// at least, for the state that it got there or for an earlier state. `seconds`: duration of the save, from
  /// `on_checkpoint` on.
  virtual void checkpoint_saved(double seconds) = 0;
  /// Number of calls of `checkpoint_saved` on this rank.
  virtual std::int64_t checkpoints_saved() const = 0;
  /// The longest `seconds` of `checkpoint_saved` on this rank; absent before the first call.
  virtual std::optional<double> longest_save_seconds() const = 0;
  /// Returns whether the run ends with this checkpoint: a callback that writes beside the training must then
  /// wait until its write is complete. Call it in `on_checkpoint`; equal on all ranks.
  virtual bool ends_with_checkpoint() const = 0;
};

}  // namespace cxtrain
