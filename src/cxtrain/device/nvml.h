#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/device/hardware.h"

/// What the driver's management library (NVML) tells of the GPUs of this machine, in PCI bus order, MIG
/// instances last. The library belongs to the driver and is opened by name. None of this creates a CUDA
/// context, and CUDA_VISIBLE_DEVICES is ignored.
namespace cxtrain {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// The GPUs; none without the library or without a working driver. What a GPU does not tell keeps its
/// default.
std::vector<Gpu> read_gpus_from_nvml(const char* library = kNvmlLibrary);

/// The newest CUDA that the driver runs, "13.0"; empty where it does not tell.
std::string cuda_version_from_nvml(const char* library = kNvmlLibrary);

/// The driver's own version, "580.65.06"; empty where it does not tell.
std::string driver_version_from_nvml(const char* library = kNvmlLibrary);

/// How a GPU is doing at the moment, whoever uses it; not-a-number for what it does not tell.
struct GpuSample {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double utilization_percent = kUnknown;  ///< time during which a kernel ran, in the driver's last period
  double memory_used_mib = kUnknown;
  double memory_free_mib = kUnknown;
  double temperature_celsius = kUnknown;
};

/// Asks for samples again and again, as cheaply as NVML can: the library stays open.
class GpuMonitor {
 public:
  virtual ~GpuMonitor() = default;
  /// The GPU of this physical index.
  virtual GpuSample sample(int gpu) = 0;
};

/// NVML's; without the library every sample is unknown.
std::unique_ptr<GpuMonitor> open_gpu_monitor(const char* library = kNvmlLibrary);

}  // namespace cxtrain
