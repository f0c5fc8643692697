#pragma once

#include <vector>

#include "cxtrain/device/hardware.h"

namespace cxtrain {

/// The GPUs of this machine as the driver's management library (NVML) describes them, in PCI bus order. The
/// library belongs to the driver and is opened by name; without it, or without a working driver, there are no
/// GPUs. Creates no CUDA context and ignores CUDA_VISIBLE_DEVICES. What a GPU does not tell keeps its
/// default.
std::vector<Gpu> read_gpus_from_nvml(const char* library = "libnvidia-ml.so.1");

}  // namespace cxtrain
