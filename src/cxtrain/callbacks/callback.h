#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "cxtrain/callbacks/run_view.h"
#include "cxtrain/data/batch.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// Code beside the model's own that runs at the hooks of a training: Lightning's Callback. Every rank has its
/// own objects and calls the same hooks. Callbacks come before the module's hook of the same name; in
/// `on_train_epoch_end` those that monitor a metric come after it, when the epoch's metrics are reduced.
///
/// A hook reaches the model by `run.module_as<MyModel>()`, what a step returned by `run.step_output()`, and
/// the run's folder by `run.log_dir()`.
class Callback {
 public:
  static constexpr std::string_view kKind = "callback";
  virtual ~Callback() = default;

  /// Whether it acts on metrics that others log (early stopping), and so wants to be last at the end of an
  /// epoch.
  virtual bool monitors() const { return false; }

  /// Around all other hooks of a run: before tuning, once the model is placed, and after a run that came to
  /// its end. `stage`: "fit", "validate", "test", "predict", or "tune" for `Trainer::lr_find` and its like.
  virtual void setup(RunView&, std::string_view /*stage*/) {}
  virtual void teardown(RunView&, std::string_view /*stage*/) {}
  /// An error ends the run on this rank, or a signal that all ranks have agreed on. The other ranks may be
  /// gone, so it talks to none. What it throws itself is logged.
  virtual void on_exception(RunView&, const std::exception&) {}

  /// What the callback has to know again when a training is resumed: Lightning's hooks of these names. Called
  /// between two steps, on every rank; a file keeps what rank 0 saves. A callback that asks for a stop
  /// because of what it has seen asks again in `on_train_start`.
  virtual void on_save_checkpoint(StateDict& /*state*/) {}
  virtual void on_load_checkpoint(const StateDict& /*state*/) {}
  /// The name under which that is kept: the class's, unless there is more to tell.
  virtual std::string state_key() const;

  /// The state of the whole training, at the first moment between two steps after somebody has asked for it
  /// (`RunView::request_checkpoint`). Its tensors are the training's own and change with the next step, so
  /// keep a `clone()`, or write them, and say so (`RunView::checkpoint_saved`).
  virtual void on_checkpoint(RunView&, const StateDict& /*state*/) {}

  virtual void on_fit_start(RunView&) {}
  virtual void on_sanity_check_start(RunView&) {}
  virtual void on_sanity_check_end(RunView&) {}
  virtual void on_train_start(RunView&) {}
  virtual void on_train_epoch_start(RunView&) {}
  virtual void on_train_batch_start(RunView&, const Batch&, std::int64_t /*batch_idx*/) {}
  virtual void on_before_zero_grad(RunView&) {}
  virtual void on_before_backward(RunView&, const at::Tensor& /*loss*/) {}
  virtual void on_after_backward(RunView&) {}
  virtual void on_before_optimizer_step(RunView&) {}
  virtual void on_train_batch_end(RunView&, const at::Tensor& /*loss*/, const Batch&,
                                  std::int64_t /*batch_idx*/) {}
  virtual void on_validation_start(RunView&) {}
  virtual void on_validation_epoch_start(RunView&) {}
  virtual void on_validation_batch_start(RunView&, const Batch&, std::int64_t) {}
  virtual void on_validation_batch_end(RunView&, const Batch&, std::int64_t) {}
  virtual void on_validation_epoch_end(RunView&) {}
  virtual void on_validation_end(RunView&) {}
  virtual void on_test_start(RunView&) {}
  virtual void on_test_epoch_start(RunView&) {}
  virtual void on_test_batch_start(RunView&, const Batch&, std::int64_t) {}
  virtual void on_test_batch_end(RunView&, const Batch&, std::int64_t) {}
  virtual void on_test_epoch_end(RunView&) {}
  virtual void on_test_end(RunView&) {}
  virtual void on_predict_start(RunView&) {}
  virtual void on_predict_batch_start(RunView&, const Batch&, std::int64_t) {}
  virtual void on_predict_batch_end(RunView&, const Batch&, std::int64_t) {}
  virtual void on_predict_end(RunView&) {}
  virtual void on_train_epoch_end(RunView&) {}
  virtual void on_train_end(RunView&) {}
  virtual void on_fit_end(RunView&) {}
};

}  // namespace cxtrain
