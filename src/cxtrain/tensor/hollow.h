#pragma once

#include <ATen/core/Tensor.h>

namespace cxtrain {

/// Returns a tensor of these sizes, and of the dtype and device of `like`, with the memory of one element:
/// what a rank has in place of a tensor that lies on other ranks. Floating-point values read as NaN.
at::Tensor hollow(at::IntArrayRef sizes, const at::Tensor& like);

}  // namespace cxtrain
