#pragma once

#include <span>

#include "cxtrain/config/rank_memory.h"
#include "cxtrain/optim/setup.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/strategy/trainable.h"

namespace cxtrain {

/// A model and its optimizers, as far as memory depends on them. The model's tensors may be without memory
/// (`ShapesOnly`).
struct ModelOutline {
  Trainable& module;
  std::span<const OptimizerTarget> targets;
  const PrecisionPolicy& precision;
};

/// Returns the memory of a rank that has the whole model, and trains it alone, without gradients in passing.
RankMemory memory_of_whole(const ModelOutline& model);

/// Returns the memory of the tensors that no optimizer trains: buffers, and other parameters with their
/// gradients, which stay if the parameters require one.
RankMemory memory_of_untrained(const ModelOutline& model);

/// Returns the memory for these tensors of the model, without gradients and state.
RankMemory memory_of_tensors(std::span<const NamedTensor> tensors);

/// Returns the gradients and the state for parameters that one optimizer trains as a whole: those that
/// require a gradient now. Adam and AdamW have 8 bytes of state for each parameter, 12 with amsgrad; SGD has
/// 4 with momentum, else none; RMSprop has 8 with momentum, else 4; Adagrad has 4; L-BFGS has 8 for each step
/// that it remembers, and 12 more. A user's optimizer counts as 8. A master weight (AMP's O2) and its
/// gradient have 8 bytes more; that of a frozen parameter has 4. `further_numbers`: what the strategy keeps
/// for each parameter besides.
RankMemory memory_of_training(std::span<const NamedTensor> parameters, const OptimizerConfig& optimizer,
                              const PrecisionPolicy& precision, int further_numbers = 0);

/// Returns the bytes of gradients that backward has computed and nobody has added to the sums of earlier
/// micro-batches yet: those of the two largest of these parameters (measured; docs/larger_models.md). Without
/// accumulation a parameter keeps the gradient that backward computes. The second gradient of a parameter
/// that two modules share is not counted.
std::int64_t gradients_in_passing(std::span<const NamedTensor> parameters);

}  // namespace cxtrain
