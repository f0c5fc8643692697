#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace cxtrain {

/// Calls `work` once for each device and dtype among the tensors, with the tensors of that kind in their
/// order, kinds in the order of their first tensor: what ATen's multi-tensor operations and single messages
/// ask for. Undefined tensors are left out. With one kind, which is nearly always, `work` gets the list as it
/// is.
void for_each_kind(at::TensorList tensors, const std::function<void(at::TensorList)>& work);

}  // namespace cxtrain
