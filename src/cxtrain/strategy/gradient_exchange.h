#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "cxtrain/reduce/gradient_shard.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The gradients of some parameters, from the backward passes of a rank to the average over all ranks. One
/// thread calls it. An optimizer step: `zero_gradients`, then for each micro-batch `begin_backward`, backward
/// and `end_backward`, then `complete`. A rank without a sample calls the same methods without a backward.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  /// Drops the gradients: the next backward writes rather than adds. Collective if ranks exchange gradients.
  virtual void zero_gradients() = 0;
  /// `completes_step`: the gradients of this backward complete those of the step, so that they may travel as
  /// soon as they are there.
  virtual void begin_backward(bool /*completes_step*/) {}
  /// Collective if gradients travel during backward.
  virtual void end_backward() {}
  /// Makes the gradient of each parameter the average over all ranks. Has no effect on complete gradients.
  /// Collective.
  virtual void complete() {}
  /// Gives all ranks equal buffers of the model, after a step. Collective.
  virtual void bring_buffers() {}

  /// Returns the shard that this rank keeps of the parameter's gradient, valid from `complete` to
  /// `zero_gradients`; the object keeps its address. Null if `complete` leaves the whole gradient in
  /// `parameter.grad()`.
  virtual const GradientShard* shard_of(const at::Tensor& /*parameter*/) const { return nullptr; }
};

/// Gradients that stay on their rank.
class LocalGradients : public GradientExchange {
 public:
  explicit LocalGradients(std::vector<NamedTensor> parameters) : parameters_(std::move(parameters)) {}

  /// Forgets the gradients rather than writing zeros: autograd then hands over its tensors, instead of adding
  /// to these.
  void zero_gradients() override {
    for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  }
  std::vector<NamedTensor>& parameters() { return parameters_; }

 private:
  std::vector<NamedTensor> parameters_;
};

}  // namespace cxtrain
