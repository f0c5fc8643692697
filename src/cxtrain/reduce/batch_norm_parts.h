#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

/// What the synchronised batch norms of hosts and of devices have in common.
namespace cxtrain {

/// Statistics and sums of a batch norm are made in float32 at least.
inline at::ScalarType accumulation_dtype(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Weights and running statistics may be absent.
inline bool has_value(const std::optional<at::Tensor>& tensor) { return tensor && tensor->defined(); }

/// Undefined where there is none; the tensor itself where it has the dtype.
inline at::Tensor in_dtype(const std::optional<at::Tensor>& tensor, at::ScalarType dtype) {
  return has_value(tensor) ? tensor->to(dtype) : at::Tensor();
}

}  // namespace cxtrain
