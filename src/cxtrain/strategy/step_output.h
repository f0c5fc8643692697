#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>

namespace cxtrain {

/// What `training_step` returns: the loss, and further tensors for the hook `on_train_batch_end`. A tensor
/// converts to a StepOutput with this loss.
///
///     return loss;
///     return {loss, {{"logits", logits}}};
///     return {};  // skips the batch
struct StepOutput {
  StepOutput() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return loss;`
  StepOutput(at::Tensor value) : loss(std::move(value)) {}
  StepOutput(at::Tensor value, std::map<std::string, at::Tensor> others)
      : loss(std::move(value)), extras(std::move(others)) {}

  at::Tensor loss;  ///< one number, with its gradient; undefined: the batch is skipped
  /// By name, of any shape and dtype. Hooks get them without gradients. Under `dp` the tensors of the
  /// replicas are joined in dimension 0; numbers become a vector.
  std::map<std::string, at::Tensor> extras;
};

}  // namespace cxtrain
