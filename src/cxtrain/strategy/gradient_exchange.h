#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/comm/connection_use.h"
#include "cxtrain/reduce/gradient_shard.h"
#include "cxtrain/reduce/rehearsal.h"
#include "cxtrain/reduce/step_flags.h"
#include "cxtrain/state/stateful.h"
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

  /// Sends this rank's flags (`kStepFlags`) along with the gradients of the step. Called between
  /// `zero_gradients` and the backward that completes the step, or, on a rank without that backward, before
  /// `complete`. Returns false, on all ranks alike, if the exchange does not carry flags. Does not wait for
  /// other ranks.
  virtual bool carry(std::uint64_t /*flags*/) { return false; }
  /// Returns, for each flag, whether at least one rank has set it. Called after `complete`, if `carry` has
  /// returned true in the step.
  virtual std::uint64_t carried() const { return 0; }

  /// Exchanges, as in a step, what lies in the memory of the gradients, so that a clock can measure it alone.
  /// The gradients have any values afterwards. Absent, on all ranks alike, if this is not possible.
  /// Collective.
  virtual std::optional<Rehearsal> rehearse(RehearsedMessages /*messages*/) { return std::nullopt; }
  /// `Communicator::connections`.
  virtual std::vector<ConnectionUse> connections() const { return {}; }

  /// Called after each optimizer step; `steps`: of the training so far. Equal on all ranks.
  virtual void end_step(std::int64_t /*steps*/) {}

  /// Gives all ranks equal buffers of the model, after a step. Collective.
  virtual void bring_buffers() {}

  /// Returns the shard that this rank keeps of the parameter's gradient, valid from `complete` to
  /// `zero_gradients`; the object keeps its address. Null if `complete` leaves the whole gradient in
  /// `parameter.grad()`.
  virtual const GradientShard* shard_of(const at::Tensor& /*parameter*/) const { return nullptr; }

  /// Returns the order of the gradients in the buckets, a name a line; empty if there are no buckets, or no
  /// step has shown an order yet.
  virtual std::string order() const { return {}; }
  /// Lays the buckets out in such an order from the next step on.
  virtual void set_order(const std::string& /*lines*/) {}
  /// Returns the state of the exchange between two steps, besides the order; null if there is none.
  virtual Stateful* memory() { return nullptr; }
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
