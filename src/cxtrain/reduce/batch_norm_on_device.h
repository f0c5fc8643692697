#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

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
