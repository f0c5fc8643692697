#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

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

}  // namespace cxtrain
