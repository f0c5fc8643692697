#pragma once

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "cxtrain/precision/policy.h"

namespace cxtrain {

/// Moves the parameters and buffers of a module and of everything below it to a device, and floating-point
/// tensors to the dtypes of the precision.
void place_layers(torch::nn::Module& module, at::Device device, const PrecisionPolicy& precision);

/// Puts the channels of parameters of four dimensions last in memory. `place_layers` keeps this layout.
void set_channels_last(torch::nn::Module& module);

}  // namespace cxtrain
