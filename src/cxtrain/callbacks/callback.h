#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/stage.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/data/batch.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/strategy/step_output.h"

namespace cxtrain {

/// A checkpoint to write.
struct CheckpointPlan {
  std::string path;           ///< its folder; replaces a checkpoint of this name once the new one is complete
  bool weights_only = false;  ///< the model only, without the state that a resume needs
  std::vector<std::string> remove = {};  ///< checkpoints to remove once this one is complete
  std::string link = {};  ///< name of a link beside the checkpoint, which then leads to it; empty: none
  /// Memory for the copy of the files that a rank writes, in bytes. A rank with larger files copies and
  /// writes in rounds, and training waits for all rounds but the last. 0: no limit.
  std::int64_t staging = 0;
};

/// The moment between two steps at which checkpoints are planned. Equal on all ranks.
struct CheckpointOccasion {
  bool must_save = false;            ///< a request to save or to requeue that no callback has met yet
  std::set<std::string> paths = {};  ///< of the checkpoints that other callbacks have planned
};

/// Code that runs at the hooks of a training, beside the model's own: Lightning's Callback. Every rank has
/// its own objects and calls every hook. A callback's hook runs before the module's hook of that name. In
/// `on_train_epoch_end`, callbacks that monitor a metric run after the module's hook, when the epoch's
/// metrics are reduced.
///
/// A hook gets the model from `run.module<MyModel>()`, and the run's folder from `run.log_dir()`.
class Callback {
 public:
  static constexpr std::string_view kKind = "callback";
  using Interface = Callback;
  virtual ~Callback() = default;

  /// Returns whether the callback acts on metrics that other code logs (early stopping). It then runs last at
  /// the end of an epoch.
  virtual bool monitors() const { return false; }

  /// Runs around all other hooks of a run: `setup` before tuning, once the model is placed, and `teardown`
  /// after a run that completed.
  virtual void setup(Run&, Stage) {}
  virtual void teardown(Run&, Stage) {}
  /// Runs if the run ends because of an error on this rank, or of a signal that all ranks have agreed on.
  /// Must not communicate: the other ranks may be gone. Its own exceptions are logged.
  virtual void on_exception(Run&, const std::exception&) {}

  /// Saves and loads the state that the callback needs when a training is resumed: Lightning's hooks of these
  /// names. Called between two steps, on every rank. A resume on an equal number of ranks gives each rank its
  /// own state, on another number the state of rank 0. A callback that requested a stop because of its state
  /// must request the stop again in `on_train_start`.
  virtual void on_save_checkpoint(StateDict& /*state*/) {}
  virtual void on_load_checkpoint(const StateDict& /*state*/) {}
  /// Returns the name of this state in a checkpoint: the class's name, or a longer name from an override.
  virtual std::string state_key() const;

  /// Returns the checkpoint that the callback wants on the disk, if any. Called between two steps, after a
  /// request (`Run::request_checkpoint`, `request_save`, `request_requeue`), before the state is saved. Every
  /// rank returns an equal plan; the ranks may communicate. The ranks share the work, in the background.
  virtual std::optional<CheckpointPlan> plan_checkpoint(Run&, const CheckpointOccasion&) { return {}; }
  /// The checkpoint that the callback planned is complete (`saved`), or could not be written: the error is
  /// logged, and training continues. Called on every rank, between two later steps or at the end.
  virtual void on_checkpoint_written(bool /*saved*/) {}

  /// Gets the state of the whole training, at the first moment between two steps after a request
  /// (`Run::request_checkpoint`). The tensors are the training's own and change with the next step: keep
  /// a `clone()`, or write the tensors and call `saved_checkpoints().add(seconds)` of the run.
  virtual void on_checkpoint(Run&, const StateDict& /*state*/) {}

  virtual void on_fit_start(Run&) {}
  virtual void on_sanity_check_start(Run&) {}
  virtual void on_sanity_check_end(Run&) {}
  virtual void on_train_start(Run&) {}
  virtual void on_train_epoch_start(Run&) {}
  virtual void on_train_batch_start(Run&, const Batch&, std::int64_t /*batch_idx*/) {}
  virtual void on_before_zero_grad(Run&) {}
  virtual void on_before_backward(Run&, const at::Tensor& /*loss*/) {}
  virtual void on_after_backward(Run&) {}
  virtual void on_before_optimizer_step(Run&, OptimizerRef&) {}
  /// `output`: of `training_step`, without gradients. Without a loss the batch was skipped.
  virtual void on_train_batch_end(Run&, const StepOutput& /*output*/, const Batch&,
                                  std::int64_t /*batch_idx*/) {}
  virtual void on_validation_start(Run&) {}
  virtual void on_validation_epoch_start(Run&) {}
  virtual void on_validation_batch_start(Run&, const Batch&, std::int64_t) {}
  virtual void on_validation_batch_end(Run&, const Batch&, std::int64_t) {}
  virtual void on_validation_epoch_end(Run&) {}
  virtual void on_validation_end(Run&) {}
  virtual void on_test_start(Run&) {}
  virtual void on_test_epoch_start(Run&) {}
  virtual void on_test_batch_start(Run&, const Batch&, std::int64_t) {}
  virtual void on_test_batch_end(Run&, const Batch&, std::int64_t) {}
  virtual void on_test_epoch_end(Run&) {}
  virtual void on_test_end(Run&) {}
  virtual void on_predict_start(Run&) {}
  virtual void on_predict_epoch_start(Run&) {}
  virtual void on_predict_batch_start(Run&, const Batch&, std::int64_t) {}
  /// `output`: of `predict_step`.
  virtual void on_predict_batch_end(Run&, const at::Tensor& /*output*/, const Batch&, std::int64_t) {}
  virtual void on_predict_epoch_end(Run&) {}
  virtual void on_predict_end(Run&) {}
  virtual void on_train_epoch_end(Run&) {}
  virtual void on_train_end(Run&) {}
  virtual void on_fit_end(Run&) {}
};

}  // namespace cxtrain
