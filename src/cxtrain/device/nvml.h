#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
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

/// Of a GPU or a MIG instance; an instance has its GPU's where it does not tell itself. An absent value: a
/// driver without the function, or one that refuses to tell.
struct GpuHealth {
  std::string uuid;
  std::optional<std::string> compute_mode;  ///< as Gpu's
  /// Memory errors that could not be corrected, counted since the driver was loaded. Absent where ECC is off,
  /// as nothing is counted then. Those of the GPU's whole life do not count: what was broken has been
  /// replaced by spare memory, and a healthy GPU would have them for ever.
  std::optional<std::int64_t> ecc_uncorrected;
  /// What slows the clocks at the moment and should not: hw_thermal_slowdown, hw_power_brake_slowdown,
  /// sw_thermal_slowdown and hw_slowdown, the one that says least last. Having nothing to do, the limit of
  /// power, and clocks that somebody has set are no such reasons.
  std::optional<std::vector<std::string>> throttled_by;
  /// Whether this GPU reads and writes the memory of another one, by the UUID of that; pairs that are not
  /// known are left out, as all pairs with a GPU that MIG divides or with an instance.
  std::map<std::string, bool> reaches;
};

/// In the order of `read_gpus_from_nvml`; none without the library or without a working driver.
std::vector<GpuHealth> read_gpu_health(const char* library = kNvmlLibrary);

}  // namespace cxtrain
