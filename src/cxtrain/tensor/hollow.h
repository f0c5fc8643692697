#pragma once

#include <ATen/core/Tensor.h>

namespace cxtrain {

/// Returns a tensor of these sizes, and of the dtype and device of `like`, with the memory of one element. A
/// rank uses a hollow tensor in place of a tensor whose values lie on other ranks. Floating-point values read
/// as NaN.
at::Tensor hollow(at::IntArrayRef sizes, const at::Tensor& like);

/// Returns whether a tensor is hollow. A hollow tensor of one element is like any other tensor.
bool is_hollow(const at::Tensor& tensor);

}  // namespace cxtrain
