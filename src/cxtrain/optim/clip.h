#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace cxtrain {

/// The 2-norm of all gradients taken as one vector; float32 (or float64) scalar on the first one's device. No
/// host synchronisation, as for everything here.
at::Tensor gradient_norm(at::TensorList gradients);

/// Scales the gradients, in place, so that their norm is at most `max_norm`:
/// g *= min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
void clip_by_norm(at::TensorList gradients, const at::Tensor& norm, double max_norm);

/// Clamps every gradient element into [-limit, limit], in place.
void clip_by_value(at::TensorList gradients, double limit);

}  // namespace cxtrain
