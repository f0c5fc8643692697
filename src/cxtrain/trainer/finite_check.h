#pragma once

#include <ATen/core/Tensor.h>

#include "cxtrain/strategy/trained_parameters.h"

/// `terminate_on_nan`. Both read a result from the device, which is what the option costs.
namespace cxtrain {

/// Throws TrainingError when the loss is NaN or infinite; an undefined one is fine.
void require_finite_loss(const at::Tensor& loss);
/// Throws TrainingError, on all ranks that share the work, where a parameter holds a NaN or an infinity; the
/// rank that has it names it. Called on every rank.
void require_finite_parameters(TrainedParameters& trained);

}  // namespace cxtrain
