#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// No gradients; in inference mode also no version counters and no views to track.
class EvaluationGuard {
 public:
  explicit EvaluationGuard(bool inference_mode) : inference_(inference_mode) {}

 private:
  c10::InferenceMode inference_;  // first: made with `false` it turns gradients on
  at::NoGradGuard no_grad_;
};

/// Runs training_step under autocast. The loss of the result has its gradient, or is undefined if the model
/// skips the batch. Throws TrainingError for a loss that is not a scalar or has no gradient.
StepOutput forward_step(Trainable& module, const Batch& batch, std::int64_t batch_idx,
                        const StrategyContext& context);

/// Returns the output without gradients.
StepOutput detached(StepOutput output);

/// Throws TrainingError for a loss that is not one number or has no gradient.
void require_trainable_loss(const at::Tensor& loss);

/// Returns the loss times `weight` and, if there is a scaler, its scale.
at::Tensor scaled_loss(const at::Tensor& loss, double weight, const GradScaler* scaler);

/// Runs backward of the loss, with the weight and the loss scale of the step, between the observer's hooks.
void observed_backward(const at::Tensor& loss, const MicroStep& step);

/// Runs the part of a micro-batch behind its forward pass: drops the gradients if a step begins, then runs
/// `observed_backward`. An undefined loss contributes nothing.
void local_backward(const at::Tensor& loss, const MicroStep& step, GradientExchange& gradients);

/// Runs `Strategy::forward` on this rank's model.
void local_forward(Trainable& module, const Batch& batch, std::int64_t batch_idx,
                   const StrategyContext& context);

/// Runs validation_step or test_step under autocast and without gradients.
void local_evaluation_step(Trainable& module, EvaluationStage stage, const Batch& batch,
                           std::int64_t batch_idx, const StrategyContext& context);
at::Tensor local_predict_step(Trainable& module, const Batch& batch, std::int64_t batch_idx,
                              const StrategyContext& context);

/// Returns the parameters of all targets, in their order.
std::vector<NamedTensor> parameters_of(std::span<const OptimizerTarget> targets);

/// Returns the names of the model's parameters that no optimizer trains.
std::set<std::string> untrained_parameters(const Trainable& module, std::span<const OptimizerTarget> targets);

/// Marks the pieces that are parts of the model rather than of master weights (`Piece::of_model`). If each
/// rank keeps the whole model, the values of these pieces are then the parameters', which have what hooks
/// have written since the last update. `pieces`: of the model's parameters.
std::vector<Piece> pieces_in_model(std::vector<Piece> pieces, const Trainable& module,
                                   const Strategy& strategy);

/// Gives all ranks rank 0's parameters. Does nothing if a rank has hollow parameters (`KeepRanges`): all
/// ranks have drawn them, or read them from a file, alike. Returns whether every rank has the whole model.
/// Collective.
bool broadcast_whole(const std::vector<NamedTensor>& parameters, Communicator& communicator, World& world);

/// Returns parameters, then buffers, in registration order.
std::vector<NamedTensor> all_tensors(const Trainable& module);

/// Implements `Strategy::visit_whole` if every rank has the whole model.
void visit_all(const Trainable& module, const std::function<void(const NamedTensor&)>& visit);

/// A strategy with the whole model on each rank; each rank runs its passes alone. It implements the methods
/// that need nothing from other ranks; its plugin adds `connect`, `data_shard` and `describe`, and, if ranks
/// train together, `make_exchange`.
class LocalStrategy : public Strategy {
 public:
  void place(Trainable& module, const StrategyContext& context) override;
  std::vector<std::unique_ptr<TrainedParameters>> prepare(const std::vector<OptimizerTarget>& targets,
                                                          Backward backward) override;
  StepResult step(StepPlan& plan) override;
  void forward(const Batch& batch, std::int64_t batch_idx) override {
    local_forward(*module_, batch, batch_idx, *context_);
  }
  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    local_evaluation_step(*module_, stage, batch, batch_idx, *context_);
  }
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    return local_predict_step(*module_, batch, batch_idx, *context_);
  }
  void visit_whole(const std::function<void(const NamedTensor&)>& visit) override {
    visit_all(*module_, visit);
  }
  std::vector<NamedTensor> whole_tensors() override { return all_tensors(*module_); }

 protected:
  /// Runs a micro-batch; returns its output, detached; its loss is undefined if there was none. Throws as
  /// `forward_step` does.
  virtual StepOutput training_step(const MicroStep& step);
  /// Returns the exchange of the gradients of these optimizers' parameters; by default gradients stay on the
  /// rank. Collective.
  virtual std::unique_ptr<GradientExchange> make_exchange(std::span<const OptimizerTarget> targets);
  /// Returns what one optimizer trains; by default each rank updates whole parameters. The exchange outlives
  /// the result. Collective.
  virtual std::unique_ptr<TrainedParameters> make_trained(const OptimizerTarget& target,
                                                          GradientExchange& exchange);
  const std::vector<std::unique_ptr<GradientExchange>>& exchanges() const { return exchanges_; }
  /// Returns the kind of backward passes that the last `prepare` was called for.
  Backward backward_passes() const { return backward_; }
  /// In `teardown`, before what the exchanges refer to.
  void release_exchanges() { exchanges_.clear(); }

  // Set by `place`.
  Trainable* module_ = nullptr;
  const StrategyContext* context_ = nullptr;

 private:
  std::vector<std::unique_ptr<GradientExchange>> exchanges_;  ///< one, or with `apart` one per optimizer
  Backward backward_ = Backward::together;
};

/// Returns the parameters that an optimizer may update: the model's parameters that can have a gradient, also
/// frozen parameters, because a hook may unfreeze them at any time.
std::vector<NamedTensor> trainable_parameters(const Trainable& module);

}  // namespace cxtrain
