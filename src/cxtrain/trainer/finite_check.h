#pragma once

#include <ATen/core/Tensor.h>

#include "cxtrain/strategy/trainable.h"

/// `terminate_on_nan`. Both read a result from the device, which is what the option costs.
namespace cxtrain {

/// Throws TrainingError when the loss is NaN or infinite; an undefined one is fine.
void require_finite_loss(const at::Tensor& loss);
/// Throws TrainingError naming the first parameter that holds a NaN or an infinity.
void require_finite_parameters(const Trainable& module);

}  // namespace cxtrain
