#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "cxtrain/comm/communicator.h"

/// The two kernels of `SyncBatchNorm`, and what they have in common.
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

/// What `SyncBatchNorm` makes of aten::batch_norm in training mode for tensors in host memory; the arguments
/// are the operator's. Collective, and so is its backward pass, which the communicator outlives.
///
/// Forward: one message of 2C + 1 float64 a rank (mean, sum of squared deviations and number of values for
/// each of C channels), combined in rank order by Chan's formula. Backward: one of 2C float64.
at::Tensor batch_norm_on_host(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                              const std::optional<at::Tensor>& bias,
                              const std::optional<at::Tensor>& running_mean,
                              const std::optional<at::Tensor>& running_var, double momentum, double eps,
                              Communicator& communicator);

/// What `SyncBatchNorm` makes of aten::batch_norm in training mode on an accelerator; the arguments are the
/// operator's. Of CUDA's kernels for just this: two passes over the input forward and two backward, a few
/// small kernels around each message, and nothing that the host waits for. Collective, and so is its backward
/// pass, which the communicator outlives.
///
/// Forward: each rank gathers the others' 2C + 1 numbers (mean, 1 / standard deviation and number of values
/// for each of C channels). Backward: one sum of 2C. They are float32, float64 for such an input. A channel
/// has up to 2^31 values over all ranks.
at::Tensor batch_norm_on_device(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                const std::optional<at::Tensor>& bias,
                                const std::optional<at::Tensor>& running_mean,
                                const std::optional<at::Tensor>& running_var, double momentum, double eps,
                                Communicator& communicator);

}  // namespace cxtrain
