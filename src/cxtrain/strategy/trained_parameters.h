#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The parameters that one optimizer trains, as they lie on the ranks, and the one way that their gradients
/// take: what is unscaled and clipped is what the optimizer reads. Made by `Strategy::prepare`; what is
/// outside of strategies knows parameters that are being trained by this alone, and so works where a rank
/// holds parts of them.
///
/// A step: the strategy's training steps, `synchronize`, changes to `gradients()`, the optimizer's update of
/// the pieces, `publish`. Every rank calls the same methods in the same order.
class TrainedParameters {
 public:
  virtual ~TrainedParameters() = default;

  /// What this rank updates; the same list for its whole life. The pieces of all ranks are the model's
  /// trainable parameters (`trainable_parameters`: frozen ones, too, which a hook may unfreeze) or copies in
  /// higher precision, by the parameters' names and in their order. A parameter may be in several ranks'
  /// lists: each then does the same to it.
  virtual std::span<const Piece> pieces() const = 0;

  /// Completes the gradients of the step: averages over what all ranks have computed. Collective.
  virtual void synchronize() = 0;

  /// The gradient of each piece, in the order of the pieces and in their shapes; undefined where the
  /// parameter has none in this step. They are there from `synchronize` to `publish`; the list itself stays
  /// where it is.
  virtual std::span<const at::Tensor> gradients() const = 0;

  /// All gradients that this rank holds: the memory of `gradients()`, and what it has besides of parameters
  /// that others update. Who scales or clamps gradients does it to these, in place, so that hooks which look
  /// at a parameter's `.grad` see all of it alike.
  virtual std::span<const at::Tensor> held_gradients() const { return gradients(); }

  /// The norm of this order (infinity: the largest absolute value) of each trainable parameter's whole
  /// gradient, in the order of `trainable_parameters`: a scalar on the parameter's device, float32 at least,
  /// equal on all ranks; undefined where there is no gradient. Does not wait for the device. Collective
  /// between ranks that hold parts. After `synchronize`.
  virtual std::vector<at::Tensor> gradient_norms(double order) = 0;

  /// Sets `found` (float32, one element; 0 or 1) to 1 where it is 1 on any rank that holds a part: all of
  /// them then skip the step. Collective between these. Does not wait for the device.
  virtual void agree_on_overflow(const at::Tensor& found) = 0;

  /// Called when pieces or buffers have been changed, by the optimizer or anybody else, on all ranks alike:
  /// brings the whole model to every rank that needs it. Collective.
  virtual void publish() = 0;
};

}  // namespace cxtrain
