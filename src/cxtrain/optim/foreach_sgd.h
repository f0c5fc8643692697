#pragma once

#include <ATen/core/Tensor.h>

#include "cxtrain/optim/setup.h"

namespace cxtrain {

/// One SGD step by elementary operations on lists, for what the fused kernel cannot do: LibTorch 2.11's, on
/// the CPU, leaves bfloat16 and float16 parameters unchanged except in the last elements that fill no vector
/// register (tests/optim/optimizers_test.cpp shows it). `momentum`: one buffer per parameter, or none without
/// momentum; zeroed before its first step.
void foreach_sgd_step(at::TensorList parameters, at::TensorList gradients, at::TensorList momentum,
                      const Sgd& rule, double weight_decay, double lr);

/// Whether the fused kernel is wrong for these.
bool fused_sgd_is_broken(const at::Tensor& parameter);

}  // namespace cxtrain
