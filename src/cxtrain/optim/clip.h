#pragma once

#include <ATen/core/Tensor.h>

namespace cxtrain {

// Undefined gradients are left out. Neither waits for the device.

/// Scales the gradients, in place, so that `norm`, which is that of all gradients taken as one vector, comes
/// to be at most `max_norm`: g *= min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
void clip_by_norm(at::TensorList gradients, const at::Tensor& norm, double max_norm);

/// Clamps every gradient element into [-limit, limit], in place.
void clip_by_value(at::TensorList gradients, double limit);

}  // namespace cxtrain
