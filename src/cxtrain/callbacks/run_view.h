#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxtrain/strategy/metric_sink.h"

namespace torch::nn {
class Module;
}

namespace cxtrain {

struct Plan;
class Filesystem;
class StateDict;

/// A checkpoint that is to be written (`RunView::save_checkpoint`).
struct SaveRequest {
  std::string path;           ///< its folder; one of this name is replaced when the new one is complete
  bool weights_only = false;  ///< the model, and nothing that a training would go on with
  std::vector<std::string> remove = {};  ///< checkpoints that go once this one is complete
  std::string link = {};  ///< the name of a link beside it that leads to it from then on; empty: none
  /// Called on every rank at the end of a later step, or of the training: whether it was written.
  std::function<void(bool saved)> then = {};
};

/// The learning rate of one parameter group.
struct LearningRate {
  std::string optimizer;  ///< "Adam", or "Adam/pg1" where there are several groups
  double value = 0;
};

/// What a running training shows of itself to modules and callbacks, and the little that they may ask of it.
class RunView {
 public:
  virtual ~RunView() = default;

  virtual int rank() const = 0;  ///< Lightning's global_rank
  virtual int local_rank() const = 0;
  virtual int world_size() const = 0;
  /// The model that is trained. `run.module_as<MyModel>()` is the same under its own type.
  virtual torch::nn::Module& module() const = 0;
  template <class Model>
  Model& module_as() const {
    return dynamic_cast<Model&>(module());
  }
  /// What was decided about ranks, devices and precision before the run.
  virtual const Plan& plan() const = 0;
  /// The run's folder, the same on all ranks; empty where nothing is written.
  virtual const std::string& log_dir() const = 0;
  virtual std::int64_t current_epoch() const = 0;
  virtual std::int64_t global_step() const = 0;        ///< optimizer steps done
  virtual std::int64_t batch_idx() const = 0;          ///< within the epoch, or the evaluation
  virtual std::int64_t num_batches() const = 0;        ///< of the epoch, or the evaluation, on this rank
  virtual std::int64_t max_epochs() const = 0;         ///< -1: no limit
  virtual std::int64_t max_steps() const = 0;          ///< -1: no limit
  virtual std::int64_t samples_per_batch() const = 0;  ///< over all ranks
  /// Whether a validation falls nowhere but at the end of every epoch, or there is none.
  virtual bool validates_at_epoch_end_only() const = 0;
  /// On how many steps' metrics rows are written; 0: never.
  virtual std::int64_t log_every_n_steps() const = 0;
  virtual double elapsed_seconds() const = 0;  ///< since training began
  virtual bool sanity_checking() const = 0;

  /// What the step that ran last returned: the loss, detached, in training (undefined where the batch was
  /// skipped), and `predict_step`'s output in a prediction. Undefined in an evaluation.
  virtual const at::Tensor& step_output() const = 0;

  /// The latest value logged under this name, which for a value logged on_step is this rank's own. May
  /// synchronise with the device.
  virtual std::optional<double> metric(std::string_view name) const = 0;
  /// The same number on every rank, for decisions: the latest value, and where that is each rank's own, their
  /// mean. Every rank calls it at the same point.
  virtual std::optional<double> metric_of_all_ranks(std::string_view name) = 0;
  /// What has been logged so far.
  virtual std::vector<std::string> metric_names() const = 0;
  /// What was logged with `prog_bar`, in the order of first logging. May synchronise with the device.
  virtual std::vector<std::pair<std::string, double>> progress_bar_metrics() const = 0;
  /// The same without waiting for a device: the newest values that have come from it.
  virtual std::vector<std::pair<std::string, double>> progress_bar_metrics_so_far() = 0;
  /// One for each parameter group of the optimizer; empty before the optimizer is made.
  virtual std::vector<LearningRate> learning_rates() const = 0;

  /// Logs a value as `Module::log` would in the hook of the same name.
  virtual void log(std::string_view name, double value, const LogOptions& options = {}) = 0;
  virtual void log(std::string_view name, const at::Tensor& value, const LogOptions& options = {}) = 0;
  /// Element-wise sums over all ranks, in place. Every rank calls it at the same point with the same length.
  virtual void sum_over_ranks(std::span<double> values) = 0;
  /// Ends training after the current step, on several ranks with GPUs after the next one; the ranks agree on
  /// it, so that one rank's wish is enough.
  virtual void request_stop(std::string reason) = 0;
  /// Asks for the state of the training, which every callback then gets (`Callback::on_checkpoint`). The wish
  /// of one rank is enough.
  virtual void request_checkpoint() = 0;
  /// The same for a run that has to make way and is to be started again, as when a batch system takes its
  /// nodes: once the state has been given to the callbacks, the run ends on every rank, with exit status 75
  /// (`ExitCode::requeue`) where one of them has saved it (`checkpoint_saved`), else with 143
  /// (`ExitCode::terminated`). The wish of one rank is enough.
  virtual void request_requeue(std::string reason) = 0;
  /// Asks for a checkpoint on the disk, whatever the plans of those callbacks are that write some: one of
  /// them takes the wish over (`take_save_request`). The wish of one rank is enough.
  virtual void request_save() = 0;
  /// Whether such a wish, or one for a requeue, is behind the state that is being made, and nobody has taken
  /// it over. In `on_save_checkpoint`, on every rank alike.
  virtual bool take_save_request() = 0;
  /// Keeps a path for the checkpoint that is being planned: false where another callback has asked for the
  /// same one before, at this step. In `on_save_checkpoint`, on the rank that chooses.
  virtual bool reserve_path(const std::string& path) = 0;
  /// Writes the state that `on_checkpoint` was given to the disk, in the background: the tensors are copied
  /// when this returns. The ranks share the work: every rank calls it with the same path. Waits for an
  /// earlier checkpoint that is not on the disk yet. What goes wrong is logged, and training goes on.
  virtual void save_checkpoint(const StateDict& state, SaveRequest request) = 0;
  /// Rank 0's text, on every rank, for decisions about what is on the disk. Every rank calls it at the same
  /// point.
  virtual std::string of_rank_zero(std::string text) = 0;
  /// Every rank's text, in rank order. Every rank calls it at the same point.
  virtual std::vector<std::string> of_all_ranks(const std::string& text) = 0;
  /// The name of each parameter of the model and a checksum of its values as this rank has them, in the order
  /// of the names: equal on all ranks between two steps. Empty if a rank keeps no whole model
  /// (`Strategy::ranks_keep_whole_models`). Reads the whole model, from GPUs by way of the host. Every rank
  /// calls it at the same point.
  virtual std::vector<std::pair<std::string, std::string>> parameter_checksums() = 0;
  /// Where the run reads and writes.
  virtual Filesystem& files() = 0;

  /// A callback calls it in `on_checkpoint` when the state that it was given there, or one that it was given
  /// before, can be read back from the disk, on one rank at least. `seconds`: what that took, from
  /// `on_checkpoint` on.
  virtual void checkpoint_saved(double seconds) = 0;
  /// How often that was, on this rank.
  virtual std::int64_t checkpoints_saved() const = 0;
  /// The longest that it took, on this rank; absent before the first.
  virtual std::optional<double> longest_save_seconds() const = 0;
  /// In `on_checkpoint`: the run ends with this one, so a callback that writes beside the training has to
  /// wait until it is written. The same on all ranks.
  virtual bool ends_with_checkpoint() const = 0;
};

}  // namespace cxtrain
