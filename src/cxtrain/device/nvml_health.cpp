#include "cxtrain/device/nvml_health.h"

#include <array>
#include <functional>
#include <limits>

#include "cxtrain/device/nvml_library.h"

namespace cxtrain {
namespace {

std::optional<std::int64_t> count_of_ecc_errors(const NvmlLibrary& nvml, NvmlLibrary::Device device) {
  unsigned int on = 0, on_after_reboot = 0;
  const int status = nvml.call<int(NvmlLibrary::Device, unsigned int*, unsigned int*)>(
      "nvmlDeviceGetEccMode", device, &on, &on_after_reboot);
  if (status == NvmlLibrary::kSuccess && on == 0) return std::nullopt;
  constexpr unsigned int kUncorrected = 1, kSinceLoaded = 0;
  const auto errors =
      nvml.ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceLoaded);
  // All bits set are NVML's word for a value that there is not.
  if (!errors || *errors > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return static_cast<std::int64_t>(*errors);
}

std::optional<std::vector<std::string>> reasons_for_lower_clocks(const NvmlLibrary& nvml,
                                                                 NvmlLibrary::Device device) {
  struct Reason {
    unsigned long long bit;
    const char* word;
  };
  static constexpr std::array<Reason, 4> kHarmful{{{0x40, "hw_thermal_slowdown"},
                                                   {0x80, "hw_power_brake_slowdown"},
                                                   {0x20, "sw_thermal_slowdown"},
                                                   {0x08, "hw_slowdown"}}};
  // Drivers since R535 have the first name, older ones the second only.
  for (const char* name :
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}) {
    const auto bits = nvml.ask<unsigned long long>(name, device);
    if (!bits) continue;
    std::vector<std::string> words;
    for (const Reason& reason : kHarmful) {
      if ((*bits & reason.bit) != 0) words.emplace_back(reason.word);
    }
    return words;
  }
  return std::nullopt;
}

/// Whether one GPU reads and writes the memory of the other.
std::optional<bool> reaches_memory(const NvmlLibrary& nvml, NvmlLibrary::Device from,
                                   NvmlLibrary::Device to) {
  constexpr unsigned int kRead = 0, kWrite = 1;             // what is asked about
  constexpr unsigned int kPossible = 0, kUndetermined = 6;  // 1 to 5: reasons why it is not possible
  bool known = true;
  for (const unsigned int capability : {kRead, kWrite}) {
    const auto answer = nvml.ask<unsigned int>("nvmlDeviceGetP2PStatus", from, to, capability);
    if (!answer || *answer >= kUndetermined)
      known = false;
    else if (*answer != kPossible)
      return false;
  }
  return known ? std::optional(true) : std::nullopt;
}

GpuHealth health_of(const NvmlLibrary& nvml, const NvmlLibrary::Found& found) {
  const auto told = [&](auto ask) {
    auto value = ask(nvml, found.device);
    if (!value && found.divided != nullptr) value = ask(nvml, found.divided);
    return value;
  };
  GpuHealth health;
  health.uuid = nvml.uuid(found.device);
  health.compute_mode = told(std::mem_fn(&NvmlLibrary::compute_mode));
  health.ecc_uncorrected = told(count_of_ecc_errors);
  health.throttled_by = told(reasons_for_lower_clocks);
  return health;
}

}  // namespace

std::vector<GpuHealth> read_gpu_health(const char* library) {
  const NvmlLibrary nvml(library);
  const std::vector<NvmlLibrary::Found> devices = nvml.devices();
  std::vector<GpuHealth> all;
  for (const NvmlLibrary::Found& found : devices) all.push_back(health_of(nvml, found));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = 0; j < devices.size(); ++j) {
      if (i == j || devices[i].mig != Mig::none || devices[j].mig != Mig::none) continue;
      if (const auto answer = reaches_memory(nvml, devices[i].device, devices[j].device))
        all[i].reaches[all[j].uuid] = *answer;
    }
  }
  return all;
}

}  // namespace cxtrain
