#pragma once

#include <functional>

#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// training_step under autocast: the loss, with its gradient. Throws TrainingError for a loss that is no
/// scalar or has no gradient.
at::Tensor forward_loss(Trainable& module, const Batch& batch, std::int64_t batch_idx,
                        const StrategyContext& context);

/// Backward of the loss times `weight` and, where there is a scaler, its scale.
void backward(const at::Tensor& loss, double weight, const GradScaler* scaler);

/// The part of a step that strategies share: forward under autocast, weighted and scaled loss, backward on
/// this rank. `zero_gradients` is called between the two on the first micro-batch of a step. Returns the
/// loss, detached. Throws as `forward_loss` does.
at::Tensor local_training_step(Trainable& module, const MicroStep& step, const StrategyContext& context,
                               const std::function<void()>& zero_gradients);

/// Runs validation_step or test_step under autocast and without gradients.
void local_evaluation_step(Trainable& module, EvaluationStage stage, const Batch& batch,
                           std::int64_t batch_idx, const StrategyContext& context);
at::Tensor local_predict_step(Trainable& module, const Batch& batch, std::int64_t batch_idx,
                              const StrategyContext& context);

/// Parameters that require a gradient.
std::vector<NamedTensor> trained_parameters(const Trainable& module);

}  // namespace cxtrain
