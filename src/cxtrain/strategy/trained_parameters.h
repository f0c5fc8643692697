#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/strategy/gradient_exchange.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The parameters that one optimizer trains, as they lie on the ranks, and their gradients: unscaling and
/// clipping change the tensors that the optimizer reads. Made by `Strategy::prepare`. Code outside of
/// strategies accesses parameters in training only through this class, and so works if a rank holds parts of
/// them.
///
/// A step: the strategy's training steps, `synchronize`, changes to `gradients()`, `begin_update`, the
/// optimizer's update of the pieces, `publish`. Every rank calls the same methods in the same order.
class TrainedParameters {
 public:
  virtual ~TrainedParameters() = default;

  /// The pieces that this rank updates; the list never changes. The pieces of all ranks are the model's
  /// trainable parameters (`trainable_parameters`: also frozen ones, which a hook may unfreeze) or copies in
  /// higher precision, by the parameters' names and in their order. If a parameter is in several ranks'
  /// lists, each of these ranks makes an equal update.
  virtual std::span<const Piece> pieces() const = 0;

  /// The way of these parameters' gradients between ranks. Several optimizers that share their backward
  /// passes share one exchange (`Backward::together`).
  virtual GradientExchange& exchange() = 0;

  /// Completes the gradients of the step: averages over the gradients of all ranks. Collective.
  virtual void synchronize() = 0;

  /// The gradient of each piece, in the order and the shapes of the pieces; undefined if the parameter has
  /// none in this step. Available from `synchronize` to `publish`; the list keeps its address.
  virtual std::span<const at::Tensor> gradients() const = 0;

  /// All gradients in this rank's memory: the memory of `gradients()`, and gradients of parameters that other
  /// ranks update. Scale and clamp these in place, so that hooks see a consistent `.grad` of each parameter.
  virtual std::span<const at::Tensor> held_gradients() const { return gradients(); }

  /// Returns the norm of this order (infinity: the largest absolute value) of each trainable parameter's
  /// whole gradient, in the order of `trainable_parameters`. A norm is a scalar on the parameter's device,
  /// float32 at least, equal on all ranks; undefined without a gradient. Does not wait for the device.
  /// Collective between ranks that hold parts. Called after `synchronize`.
  virtual std::vector<at::Tensor> gradient_norms(double order) = 0;

  /// Sets `found` (float32, one element; 0 or 1) to 1 if it is 1 on any rank that holds a part: all these
  /// ranks then skip the step. Collective between these ranks. Does not wait for the device.
  virtual void agree_on_overflow(const at::Tensor& found) = 0;

  /// Begins a change of the pieces: returns when no rank uses the parameters any more. The pieces then have
  /// the model's values, also values that a hook has written to the parameters, alike on all ranks. Master
  /// weights keep their own values. Called before the optimizer or other code reads or changes pieces.
  /// Collective.
  virtual void begin_update() {}

  /// Brings the whole model to every rank that needs it. Called after the optimizer or other code has changed
  /// pieces or buffers, alike on all ranks. Collective.
  virtual void publish() = 0;
  /// The same after an optimizer's step, which has changed no frozen parameter. Collective.
  virtual void publish_step() { publish(); }

  // For ranks that update parameters apart for several steps. All ranks call these methods.

  /// Called after each step of a training; `step`: the number of steps so far. Collective.
  virtual void end_step(std::int64_t /*step*/) {}
  /// Makes the parameters equal on all ranks. Called before an evaluation or a checkpoint reads the model.
  /// Collective.
  virtual void unite() {}
  /// Makes tensors that belong to the pieces, such as the optimizer's, the means over the ranks that update
  /// the same pieces. Collective.
  virtual void average(std::span<const at::Tensor> /*tensors*/) {}
  /// Returns further state that belongs to the parameters, such as a momentum, as pieces for a checkpoint.
  /// Their names differ from the names in the optimizer's state.
  virtual std::vector<Piece> state() const { return {}; }
  /// Takes the further state from saved pieces, which may lack the state. Throws StateError.
  virtual void load(std::span<const Piece> /*saved*/) {}
};

}  // namespace cxtrain
