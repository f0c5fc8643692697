#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/hyperparameters.h"
#include "cxtrain/metrics/metric.h"
#include "cxtrain/metrics/metric_sink.h"
#include "cxtrain/optim/optimizer_ref.h"
#include "cxtrain/optim/setup.h"
#include "cxtrain/report/run_loggers.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/strategy/trainable.h"
#include "cxtrain/trainer/data_module.h"

namespace cxtrain {

/// Thrown by an optional step method that the model does not override.
class StepNotDefined : public ConfigError {
 public:
  StepNotDefined(const std::string& stage, const std::string& method)
      : ConfigError("model", "cannot " + stage + ": its class does not define " + method) {}
};

/// A model and how to train it: Lightning's LightningModule. Derive, register submodules in the constructor,
/// and write `training_step` and `configure_optimizers`; everything else has a default.
///
///     class Regression : public cxtrain::Module {
///      public:
///       Regression() { net = register_module("net", torch::nn::Linear(8, 1)); }
///       cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
///         auto loss = torch::mse_loss(net(batch[0]), batch[1]);
///         log("train_loss", loss);
///         return loss;
///       }
///       cxtrain::Optimizers configure_optimizers() override { return cxtrain::Adam{.lr = 1e-3}; }
///       torch::nn::Linear net{nullptr};
///     };
///
/// Fitting may move parameters in memory, to a device or to memory that other ranks see: keep tensors, not
/// addresses. Every rank runs the same methods. The step methods run on the rank's own shard of the global
/// batch, with autocast on if the precision requires it. They must not call collectives of their own;
/// `all_gather` and metrics reach the other ranks.
///
/// With `dp` the step methods run on each replica, in parallel, and hooks run on the trained model only. A
/// hook's change reaches the replicas if it changes a parameter, a buffer or the training mode of a layer. A
/// step gets anything else from `current_epoch()` and `global_step()`.
class Module : public torch::nn::Module, public HyperparametersMixin, private Trainable {
 public:
  static constexpr std::string_view kKind = "model";
  using Interface = Module;

  /// Returns the loss of a batch, with its gradient, and any further tensors for hooks; a loss that is
  /// undefined skips the batch. In manual optimization the loss needs no gradient, and may be undefined.
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override = 0;
  /// A model without validation_step trains without validation, after a warning. A test or a prediction
  /// without its step method is rejected.
  void validation_step(const Batch& batch, std::int64_t batch_idx) override;
  void test_step(const Batch& batch, std::int64_t batch_idx) override;
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override;

  /// Returns the optimizers and their schedules. Called on every rank after the model was placed and before
  /// its optimizers are built. Called once before that, as a check, if the command line changes arguments of
  /// an optimizer or schedule that it does not name.
  ///
  /// In automatic optimization one backward of the loss of `training_step` serves all optimizers. Each
  /// updates its own parameters; a parameter without an optimizer is not trained.
  virtual Optimizers configure_optimizers() = 0;

  /// Set to false, in the constructor, for manual optimization: `training_step` runs its own backward passes
  /// and optimizer steps, by `optimizer("g").minimize(...)`, or by `zero_grad`, `manual_backward` and `step`.
  ///
  ///     optimizer("g").minimize([&] { return bce(D(G(noise)), 1); });
  ///     optimizer("d").minimize([&] { return bce(D(images), 1) + bce(D(G(noise).detach()), 0); });
  ///
  /// A batch in which an optimizer has stepped counts as one step (`global_step`).
  bool automatic_optimization = true;

  /// Returns the optimizer of this name; without a name: the only optimizer. Throws TrainingError if there is
  /// none of this name, or outside of a fit.
  OptimizerRef& optimizer(std::string_view name = {}) const;
  /// In manual optimization: adds the gradients of the loss to those of all parameters that take part. The
  /// gradients stay on this rank until an optimizer steps.
  void manual_backward(const at::Tensor& loss);

  /// Steps an optimizer in automatic optimization. An override may change the learning rate first, or not
  /// step; every rank does the same.
  virtual void optimizer_step(OptimizerRef& optimizer) { optimizer.step(); }
  /// Clips the gradients before an optimizer's step. `limit`, `algorithm`: `gradient_clip_val`,
  /// `gradient_clip_algorithm`.
  virtual void configure_gradient_clipping(OptimizerRef& optimizer, std::optional<double> limit,
                                           GradientClipAlgorithm algorithm) {
    if (limit && *limit > 0) optimizer.clip(*limit, algorithm);
  }

  /// Defaults of this model for options that the user does not give.
  struct TrainerDefaults {
    std::optional<std::int64_t> max_epochs = {};
  };
  virtual TrainerDefaults trainer_defaults() const { return {}; }

  /// Returns the data that a model brings along (an example does); null if the user has to name data.
  virtual std::unique_ptr<DataModule> default_data() { return nullptr; }

  /// Saves and loads state besides parameters and buffers: Lightning's hooks of these names. Called between
  /// two steps, on every rank. A resume on an equal number of ranks gives each rank its own state, on another
  /// number the state of rank 0. Loaded after the parameters, before `on_fit_start`.
  virtual void on_save_checkpoint(StateDict& /*state*/) {}
  virtual void on_load_checkpoint(const StateDict& /*state*/) {}

  /// Returns callbacks that the model adds to the user's in its runs. Called once per run, on every rank.
  virtual std::vector<std::unique_ptr<Callback>> configure_callbacks() { return {}; }

  /// Change a batch before and after its transfer to `device()`: Lightning's hooks of these names. Not called
  /// for a batch without samples, nor if the data module overrides the hook. The tensors keep the samples in
  /// dimension 0. `context`: the stage, and random numbers that a resumed run draws again. On a CPU the
  /// dataset's own method has finished the batch before both, on a GPU between them.
  ///
  ///     void on_after_batch_transfer(cxtrain::Batch& batch, cxtrain::BatchContext& context) override {
  ///       if (context.stage() != cxtrain::Stage::fit) return;
  ///       batch.tensors[0] = batch[0] + 0.1 * at::randn(batch[0].sizes(), context.generator(),
  ///       batch[0].options());
  ///     }
  virtual void on_before_batch_transfer(Batch&, BatchContext&) {}
  virtual void on_after_batch_transfer(Batch&, BatchContext&) {}

  // Hooks, with Lightning's names and meaning, in the order of a fit. A test or a prediction calls its own.
  virtual void on_fit_start() {}
  virtual void on_train_start() {}
  virtual void on_train_epoch_start() {}
  virtual void on_train_batch_start(const Batch&, std::int64_t /*batch_idx*/) {}
  virtual void on_before_zero_grad() {}
  virtual void on_before_backward(const at::Tensor& /*loss*/) {}
  virtual void on_after_backward() {}
  virtual void on_before_optimizer_step(OptimizerRef&) {}
  virtual void on_train_batch_end(const StepOutput& /*output*/, const Batch&, std::int64_t /*batch_idx*/) {}
  virtual void on_validation_start() {}
  virtual void on_validation_epoch_start() {}
  virtual void on_validation_batch_start(const Batch&, std::int64_t) {}
  virtual void on_validation_batch_end(const Batch&, std::int64_t) {}
  virtual void on_validation_epoch_end() {}
  virtual void on_validation_end() {}
  virtual void on_test_start() {}
  virtual void on_test_epoch_start() {}
  virtual void on_test_batch_start(const Batch&, std::int64_t) {}
  virtual void on_test_batch_end(const Batch&, std::int64_t) {}
  virtual void on_test_epoch_end() {}
  virtual void on_test_end() {}
  virtual void on_predict_start() {}
  virtual void on_predict_epoch_start() {}
  virtual void on_predict_batch_start(const Batch&, std::int64_t) {}
  virtual void on_predict_batch_end(const at::Tensor& /*output*/, const Batch&, std::int64_t) {}
  virtual void on_predict_epoch_end() {}
  virtual void on_predict_end() {}
  virtual void on_train_epoch_end() {}
  virtual void on_train_end() {}
  virtual void on_fit_end() {}

  /// Logs a scalar under this name: to the metric loggers, and with `prog_bar` to the progress bar. No host
  /// synchronisation. The hook that calls decides when the value is written, unless the options do
  /// (`trainer/hooks.h`). Throws TrainingError in hooks that no row of metrics follows, as Lightning does.
  /// Has no effect outside of hooks and steps.
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options = {});
  void log(std::string_view name, double value, const LogOptions& options = {});
  /// Logs a metric of this model, after its `update`: on_epoch the value over the samples of all ranks, when
  /// the epoch ends; on_step the value of this batch on this rank. Throws TrainingError if the metric's value
  /// is not one number.
  void log(std::string_view name, Metric& metric, const LogOptions& options = {});
  /// Logs several scalars: `log_dict({{"loss", loss}, {"accuracy", accuracy}})`, or any map from names to
  /// tensors or numbers.
  void log_dict(std::initializer_list<std::pair<std::string_view, at::Tensor>> values,
                const LogOptions& options = {}) {
    for (const auto& [name, value] : values) log(name, value, options);
  }
  template <class Map>
  void log_dict(const Map& values, const LogOptions& options = {}) {
    for (const auto& [name, value] : values) log(name, value, options);
  }

  /// The run's loggers, for images and texts: `loggers().log_image("samples", image)`. They have no effect
  /// outside of hooks and steps.
  RunLoggers& loggers() const;

  /// Makes a metric of this model, in the constructor or a member's initialiser; the model owns it. `name`:
  /// one line, unique in the model. Throws ConfigError for a name or arguments that cannot be. Every rank and
  /// every replica registers the same metrics.
  ///
  ///     cxtrain::Accuracy& accuracy = register_metric<cxtrain::Accuracy>("accuracy", {.classes = 10});
  ///
  /// A metric has states of its own for each training epoch and each evaluation. They are reduced over the
  /// ranks before the hooks at the end of the epoch and reset after them, and are in checkpoints.
  template <class M>
  M& register_metric(const std::string& name, typename M::Args args = {}) {
    return own_metric(name, std::make_unique<M>(std::move(args)));
  }
  template <class M>
  requires(!requires { typename M::Args; }) M& register_metric(const std::string& name) {
    return own_metric(name, std::make_unique<M>());
  }

  /// Joins the tensors of all ranks in dimension 0, in rank order; a number counts as one row. Ranks may have
  /// different numbers of rows; all other sizes and the dtype are equal. For steps: every rank calls it at
  /// the same place. `sync_grads`: backward gives the tensor of each rank the sum of its gradients over all
  /// ranks; otherwise the result has no gradient. Lightning's `all_gather` adds a dimension instead.
  ///
  ///     const at::Tensor keys = all_gather(encoder->forward(batch[1]), /*sync_grads=*/true);
  ///
  /// Throws TrainingError if a rank may have no sample of a batch (in an evaluation
  /// `DataLoaderSpec::drop_last` leaves out such batches; in training `--data.uneven exact` makes them, and a
  /// stream may), and if the strategy cannot gather.
  at::Tensor all_gather(const at::Tensor& tensor, bool sync_grads = false) const;

  /// Returns the parameters in registration order, each once, under its first name if modules share it (tied
  /// weights). The tensors are handles: writing to them writes to the model.
  std::vector<NamedTensor> all_parameters() const override;

  /// The run that trains or evaluates the model: its progress, its metrics, its folder, collectives of the
  /// ranks, and requests to stop or to save. Throws TrainingError outside of a run.
  Run& run() const;
  /// Position of the run; 0 outside of a run.
  std::int64_t global_step() const { return run_ ? run_->global_step() : 0; }
  std::int64_t current_epoch() const { return run_ ? run_->current_epoch() : 0; }
  /// Limits of the run, -1 for no limit: Lightning's `trainer.max_epochs` and `trainer.max_steps`.
  std::int64_t max_epochs() const { return run_ ? run_->progress().max_epochs : -1; }
  std::int64_t max_steps() const { return run_ ? run_->progress().max_steps : -1; }
  /// Batches of the running epoch or evaluation, on this rank; -1 if a stream's number of batches is unknown.
  std::int64_t num_batches() const { return run_ ? run_->progress().num_batches : 0; }
  /// Of several loaders that are read one after the other: the number of the current loader, from 0 on.
  int dataloader_idx() const { return run_ ? run_->progress().dataloader_idx : 0; }
  int global_rank() const { return run_ ? run_->rank() : 0; }
  int local_rank() const { return run_ ? run_->world().facts().local_rank : 0; }
  int world_size() const { return run_ ? run_->world().size() : 1; }
  bool is_global_zero() const { return global_rank() == 0; }
  /// The run's folder; empty if nothing is written.
  std::string log_dir() const { return run_ ? run_->log_dir() : std::string(); }
  /// The rank's device, or its first device: batches arrive there, and parameters live there unless
  /// `place_parts` moves them.
  at::Device device() const { return devices_.front(); }
  /// The number of the rank's devices.
  std::size_t device_count() const { return devices_.size(); }

  /// Puts each part of a model in several parts on a device of its own. Called whenever the model has been
  /// moved to the first device. Training such a model takes `--devices_per_rank n`. With fewer devices than
  /// parts the last device has several of them, so that the model trains on one device, too.
  ///
  ///     void place_parts() override {
  ///       encoder->to(part_device(0));
  ///       decoder->to(part_device(1));
  ///     }
  ///
  /// The forward pass moves tensors from one part to the next, with `to_part`.
  virtual void place_parts() {}
  at::Device part_device(std::size_t part) const;
  at::Tensor to_part(const at::Tensor& tensor, std::size_t part) const;

 private:
  friend Trainable& trainable(Module& module);
  friend const Trainable& trainable(const Module& module);
  friend void attach(Module& module, MetricSink* sink, Run* run);

  std::vector<NamedTensor> all_buffers() const override;
  void place(std::span<const at::Device> devices, const PrecisionPolicy& precision) override;
  void set_training(bool on) override { train(on); }
  std::vector<bool> training_modes() const override;
  void set_training_modes(const std::vector<bool>& modes) override;
  MetricSink* redirect_log(MetricSink* sink) override { return std::exchange(sink_, sink); }
  std::vector<Metric*> all_metrics() const override;

  template <class M>
  M& own_metric(const std::string& name, std::unique_ptr<M> metric) {
    M& made = *metric;
    add_metric(name, std::move(metric));
    return made;
  }
  void add_metric(std::string name, std::unique_ptr<Metric> metric);

  std::vector<std::unique_ptr<Metric>> metrics_;
  MetricSink* sink_ = nullptr;
  Run* run_ = nullptr;
  std::vector<at::Device> devices_{at::kCPU};  ///< devices of this rank
  mutable std::size_t parts_asked_for_ = 0;    ///< since the model was last placed
};

/// The model as strategies and loops see it.
Trainable& trainable(Module& module);
const Trainable& trainable(const Module& module);

/// Sets the destination of the logged values and the run of the loop that runs the model; null at its end.
void attach(Module& module, MetricSink* sink, Run* run);

}  // namespace cxtrain
