#pragma once

#include <ATen/core/Tensor.h>

namespace cxtrain {

/// This rank's elements of a parameter's averaged gradient. `values`: in the shape of the parameter if the
/// rank has all elements, else flat; empty if the rank has none.
struct GradientShard {
  at::Tensor values;
  bool present = false;  ///< the parameter has a gradient in this step; alike on all ranks
};

}  // namespace cxtrain
