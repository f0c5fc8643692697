#include "cxtrain/device/nvml.h"

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "cxtrain/device/nvml_library.h"

namespace cxtrain {
namespace {

// The few declarations of NVML's stable C interface that are needed.
using Device = NvmlLibrary::Device;
constexpr int kSuccess = NvmlLibrary::kSuccess;
struct MemoryV1 {
  unsigned long long total, free, used;  // bytes; used has what the driver reserves for itself
};
struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;  // bytes
};
struct Utilization {
  unsigned int gpu, memory;  // percent
};
constexpr unsigned int kMemoryVersion2 = sizeof(MemoryV2) | 2U << 24;
constexpr unsigned int kCoreSensor = 0;
constexpr double kMib = 1 << 20;

struct MemoryInfo {
  double total_mib, free_mib, used_mib;
};

/// As nvidia-smi shows it: without the driver's own share, where the driver tells (since R510).
std::optional<MemoryInfo> memory_of(const NvmlLibrary& nvml, Device device) {
  const auto info = [](const auto& memory) {
    return MemoryInfo{static_cast<double>(memory.total) / kMib, static_cast<double>(memory.free) / kMib,
                      static_cast<double>(memory.used) / kMib};
  };
  MemoryV2 second{kMemoryVersion2, 0, 0, 0, 0};
  if (nvml.call<int(Device, MemoryV2*)>("nvmlDeviceGetMemoryInfo_v2", device, &second) == kSuccess)
    return info(second);
  MemoryV1 first{};
  if (nvml.call<int(Device, MemoryV1*)>("nvmlDeviceGetMemoryInfo", device, &first) == kSuccess)
    return info(first);
  return std::nullopt;
}

std::optional<unsigned int> utilization_of(const NvmlLibrary& nvml, Device device) {
  const auto utilization = nvml.ask<Utilization>("nvmlDeviceGetUtilizationRates", device);
  return utilization ? std::optional(utilization->gpu) : std::nullopt;
}

Gpu describe(const NvmlLibrary& nvml, const NvmlLibrary::Found& found) {
  const Device device = found.device;
  Gpu gpu;
  gpu.index = found.index;
  gpu.mig = found.mig;
  gpu.name = nvml.text("nvmlDeviceGetName", device);
  gpu.uuid = nvml.uuid(device);
  gpu.compute_mode = nvml.compute_mode(device).value_or(gpu.compute_mode);
  int major = 0, minor = 0;
  if (nvml.call<int(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) ==
      kSuccess)
    gpu.compute_capability = std::to_string(major) + "." + std::to_string(minor);
  if (const auto memory = memory_of(nvml, device)) {
    gpu.memory_total_mib = static_cast<std::int64_t>(memory->total_mib);
    gpu.memory_used_mib = static_cast<std::int64_t>(memory->used_mib);
  }
  gpu.utilization = utilization_of(nvml, device);
  // Asked with room for none, NVML answers how many processes there are.
  unsigned int processes = 0;
  const int status = nvml.call<int(Device, unsigned int*, void*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3", device, &processes, static_cast<void*>(nullptr));
  if (status == kSuccess || status == NvmlLibrary::kInsufficientSize) {
    gpu.processes = static_cast<int>(processes);
  }
  return gpu;
}

class NvmlMonitor final : public GpuMonitor {
 public:
  explicit NvmlMonitor(const char* library) : nvml_(library) {}

  GpuSample sample(int gpu) override {
    GpuSample sample;
    const Device device = nvml_.started() ? nvml_.device(static_cast<unsigned int>(gpu)) : nullptr;
    if (device == nullptr) return sample;
    if (const auto memory = memory_of(nvml_, device)) {
      sample.memory_used_mib = memory->used_mib;
      sample.memory_free_mib = memory->free_mib;
    }
    if (const auto percent = utilization_of(nvml_, device)) sample.utilization_percent = *percent;
    if (const auto celsius = nvml_.ask<unsigned int>("nvmlDeviceGetTemperature", device, kCoreSensor))
      sample.temperature_celsius = *celsius;
    return sample;
  }

 private:
  NvmlLibrary nvml_;
};

}  // namespace

std::vector<Gpu> read_gpus_from_nvml(const char* library) {
  const NvmlLibrary nvml(library);
  std::vector<Gpu> gpus;
  for (const NvmlLibrary::Found& found : nvml.devices()) gpus.push_back(describe(nvml, found));
  return gpus;
}

std::string cuda_version_from_nvml(const char* library) {
  const NvmlLibrary nvml(library);
  if (!nvml.started()) return {};
  const auto version = nvml.ask<int>("nvmlSystemGetCudaDriverVersion_v2");
  return version ? cuda_version_text(*version) : "";
}

std::string driver_version_from_nvml(const char* library) {
  const NvmlLibrary nvml(library);
  std::array<char, 81> version{};
  if (!nvml.started() ||
      nvml.call<int(char*, unsigned int)>("nvmlSystemGetDriverVersion", version.data(),
                                          static_cast<unsigned int>(version.size() - 1)) != kSuccess)
    return {};
  return version.data();
}

std::unique_ptr<GpuMonitor> open_gpu_monitor(const char* library) {
  return std::make_unique<NvmlMonitor>(library);
}

}  // namespace cxtrain
