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
#include "cxtrain/optim/setup.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/strategy/metric_sink.h"
#include "cxtrain/strategy/trainable.h"
#include "cxtrain/trainer/data_module.h"

namespace cxtrain {

/// What a step that a model may leave out throws where the model has left it out.
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
///       at::Tensor training_step(const cxtrain::Batch& batch, std::int64_t) override {
///         auto loss = torch::mse_loss(net(batch[0]), batch[1]);
///         log("train_loss", loss);
///         return loss;
///       }
///       cxtrain::OptimizerSetup configure_optimizers() override { return {cxtrain::Adam{.lr = 1e-3}}; }
///       torch::nn::Linear net{nullptr};
///     };
///
/// Fitting may move parameters in memory, to a device or to where other ranks see them: keep tensors, not
/// addresses. Every rank runs the same methods. The step methods run on the rank's own shard of the global
/// batch, with autocast on where the precision asks for it, and must not call collectives of their own. With
/// `dp` they run on each replica, at the same time, and hooks on the trained model only: what a hook changes
/// reaches the replicas where it is a parameter, a buffer or the training mode of a layer; anything else a
/// step takes from `current_epoch()` and `global_step()`.
class Module : public torch::nn::Module, public Trainable {
 public:
  static constexpr std::string_view kKind = "model";

  /// The loss of a batch, with its gradient; an undefined tensor skips the batch.
  at::Tensor training_step(const Batch& batch, std::int64_t batch_idx) override = 0;
  /// A model without validation_step trains without validation, after a warning. To test or to predict, the
  /// model has to define the step, or the run is refused.
  void validation_step(const Batch& batch, std::int64_t batch_idx) override;
  void test_step(const Batch& batch, std::int64_t batch_idx) override;
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override;

  /// Called on every rank after the model was placed and before its optimizer is built; and once before that,
  /// to check them, where the command line changes arguments of an optimizer or schedule that it does not
  /// name.
  virtual OptimizerSetup configure_optimizers() = 0;

  /// What suits this model where the user says nothing.
  struct TrainerDefaults {
    std::optional<std::int64_t> max_epochs = {};
  };
  virtual TrainerDefaults trainer_defaults() const { return {}; }

  /// The data that a model brings along (an example does); null when the user has to name some.
  virtual std::unique_ptr<DataModule> default_data() { return nullptr; }

  /// What the model remembers besides its parameters and buffers: Lightning's hooks of these names. Called
  /// between two steps, on every rank; a file keeps what rank 0 saves. Loaded after the parameters, before
  /// `on_fit_start`.
  virtual void on_save_checkpoint(StateDict& /*state*/) {}
  virtual void on_load_checkpoint(const StateDict& /*state*/) {}

  /// Callbacks that the model wants in its runs, besides those that the user adds. Called once a run, on
  /// every rank.
  virtual std::vector<std::unique_ptr<Callback>> configure_callbacks() { return {}; }

  // Hooks, in the order in which they run. Lightning's names and meaning.
  virtual void on_fit_start() {}
  virtual void on_train_start() {}
  virtual void on_train_epoch_start() {}
  virtual void on_train_batch_start(const Batch&, std::int64_t /*batch_idx*/) {}
  virtual void on_before_zero_grad() {}
  virtual void on_before_backward(const at::Tensor& /*loss*/) {}
  virtual void on_after_backward() {}
  virtual void on_before_optimizer_step() {}
  virtual void on_train_batch_end(const at::Tensor& /*loss*/, const Batch&, std::int64_t /*batch_idx*/) {}
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
  virtual void on_predict_batch_start(const Batch&, std::int64_t) {}
  virtual void on_predict_batch_end(const Batch&, std::int64_t) {}
  virtual void on_predict_end() {}
  virtual void on_train_epoch_end() {}
  virtual void on_train_end() {}
  virtual void on_fit_end() {}

  /// Logs a scalar under this name: to the metric loggers, and with `prog_bar` to the progress bar. No host
  /// synchronisation. What is written when, unless the options say it, depends on the hook that calls
  /// (`trainer/hooks.h`). Throws TrainingError in hooks that no row of metrics follows, as Lightning does;
  /// has no effect outside of hooks and steps.
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options = {});
  void log(std::string_view name, double value, const LogOptions& options = {});
  /// The same for several: `log_dict({{"loss", loss}, {"accuracy", accuracy}})`, or any map from names to
  /// tensors or numbers.
  void log_dict(std::initializer_list<std::pair<std::string_view, at::Tensor>> values,
                const LogOptions& options = {}) {
    for (const auto& [name, value] : values) log(name, value, options);
  }
  template <class Map>
  void log_dict(const Map& values, const LogOptions& options = {}) {
    for (const auto& [name, value] : values) log(name, value, options);
  }

  /// Where the run stands; 0 outside of one.
  std::int64_t global_step() const { return run_ ? run_->global_step() : 0; }
  std::int64_t current_epoch() const { return run_ ? run_->current_epoch() : 0; }
  /// Limits of the run, -1 where there is none: Lightning's `trainer.max_epochs` and its like.
  std::int64_t max_epochs() const { return run_ ? run_->max_epochs() : -1; }
  std::int64_t max_steps() const { return run_ ? run_->max_steps() : -1; }
  /// Batches of the epoch or evaluation that runs, on this rank.
  std::int64_t num_batches() const { return run_ ? run_->num_batches() : 0; }
  int global_rank() const { return run_ ? run_->rank() : 0; }
  int local_rank() const { return run_ ? run_->local_rank() : 0; }
  int world_size() const { return run_ ? run_->world_size() : 1; }
  bool is_global_zero() const { return global_rank() == 0; }
  /// The run's folder; empty where nothing is written.
  std::string log_dir() const { return run_ ? run_->log_dir() : std::string(); }
  /// The rank's device, or its first: where batches arrive, and parameters live unless `place_parts` says
  /// otherwise.
  at::Device device() const { return devices_.front(); }

  /// Models in several parts override this to put each part on a device of its own: called whenever the model
  /// has been moved to the first device. Training such a model takes `--devices_per_rank n`; with fewer
  /// devices than parts the last device has several of them, so that it trains on one device, too.
  ///
  ///     void place_parts() override {
  ///       encoder->to(part_device(0));
  ///       decoder->to(part_device(1));
  ///     }
  ///
  /// The forward pass moves what goes from one part to the next, with `to_part`.
  virtual void place_parts() {}
  at::Device part_device(std::size_t part) const;
  at::Tensor to_part(const at::Tensor& tensor, std::size_t part) const;

  // Trainable, for the strategies.
  std::vector<NamedTensor> all_parameters() const override;
  std::vector<NamedTensor> all_buffers() const override;
  void place(std::span<const at::Device> devices, const PrecisionPolicy& precision) override;
  /// Parameters of four dimensions get their channels last in memory; a placed module keeps that.
  void set_channels_last();
  void set_training(bool on) override;
  std::vector<bool> training_modes() const override;
  void set_training_modes(const std::vector<bool>& modes) override;
  MetricSink* redirect_log(MetricSink* sink) override { return std::exchange(sink_, sink); }

  /// Lent by the running loop, and taken back (null) at its end.
  void attach(MetricSink* sink, RunView* run);

 private:
  MetricSink* sink_ = nullptr;
  RunView* run_ = nullptr;
  std::vector<at::Device> devices_{at::kCPU};  ///< of this rank
  mutable std::size_t parts_asked_for_ = 0;    ///< since the model was last placed
};

}  // namespace cxtrain
