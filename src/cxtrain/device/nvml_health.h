#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/device/nvml.h"

/// Whether the GPUs of this machine are fit to be used, as NVML tells it: no other work than asking, and no
/// CUDA context.
namespace cxtrain {

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
