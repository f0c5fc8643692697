#include "cxtrain/device/nvml.h"

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "cxtrain/device/driver_library.h"

namespace cxtrain {
namespace {

/// The driver's management library with a session in it.
class NvmlLibrary {
 public:
  using Device = struct nvmlDevice_st*;
  static constexpr int kSuccess = 0;
  static constexpr int kInsufficientSize = 7;

  explicit NvmlLibrary(const char* name) : library_(name) {
    started_ = library_ && call<int()>("nvmlInit_v2") == kSuccess;
  }
  ~NvmlLibrary() {
    if (started_) call<int()>("nvmlShutdown");
  }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  bool started() const { return started_; }

  /// Calls the function of this name; an error of NVML's when the library has none.
  template <class Signature, class... Args>
  int call(const char* name, Args... args) const {
    constexpr int kFunctionNotFound = 13;
    return library_.call_or<Signature>(kFunctionNotFound, name, args...);
  }

  /// The GPU of this index in PCI bus order; null for none.
  Device device(unsigned int index) const {
    Device device = nullptr;
    const int status = call<int(unsigned int, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
    return status == kSuccess ? device : nullptr;
  }

 private:
  DriverLibrary library_;
  bool started_ = false;
};

// The few declarations of NVML's stable C interface that are needed; its header comes with the CUDA toolkit
// only.
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
  Utilization utilization{};
  const int status =
      nvml.call<int(Device, Utilization*)>("nvmlDeviceGetUtilizationRates", device, &utilization);
  return status == kSuccess ? std::optional(utilization.gpu) : std::nullopt;
}

std::string text_of(const NvmlLibrary& nvml, const char* function, Device device) {
  std::array<char, 97> text{};
  const int status = nvml.call<int(Device, char*, unsigned int)>(function, device, text.data(),
                                                                 static_cast<unsigned int>(text.size() - 1));
  return status == kSuccess ? text.data() : "";
}

std::string compute_mode_of(const NvmlLibrary& nvml, Device device) {
  static constexpr std::array kNames{"default", "exclusive_thread", "prohibited", "exclusive_process"};
  unsigned int mode = 0;
  const int status = nvml.call<int(Device, unsigned int*)>("nvmlDeviceGetComputeMode", device, &mode);
  return status == kSuccess && mode < kNames.size() ? kNames[mode] : "default";
}

Gpu describe(const NvmlLibrary& nvml, Device device, int index) {
  Gpu gpu;
  gpu.index = index;
  gpu.name = text_of(nvml, "nvmlDeviceGetName", device);
  gpu.uuid = text_of(nvml, "nvmlDeviceGetUUID", device);
  gpu.compute_mode = compute_mode_of(nvml, device);
  int major = 0, minor = 0;
  if (nvml.call<int(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) ==
      kSuccess)
    gpu.compute_capability = std::to_string(major) + "." + std::to_string(minor);
  if (const auto memory = memory_of(nvml, device)) {
    gpu.memory_total_mib = static_cast<std::int64_t>(memory->total_mib);
    gpu.memory_used_mib = static_cast<std::int64_t>(memory->used_mib);
  }
  gpu.utilization = static_cast<int>(utilization_of(nvml, device).value_or(0));
  // Asked with room for none, NVML answers how many processes there are.
  unsigned int processes = 0;
  const int status = nvml.call<int(Device, unsigned int*, void*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3", device, &processes, static_cast<void*>(nullptr));
  if (status == kSuccess || status == NvmlLibrary::kInsufficientSize) {
    gpu.processes = static_cast<int>(processes);
  }
  return gpu;
}

/// Whether MIG divides this GPU.
bool is_divided(const NvmlLibrary& nvml, Device device) {
  unsigned int now = 0, after_reset = 0;
  return nvml.call<int(Device, unsigned int*, unsigned int*)>("nvmlDeviceGetMigMode", device, &now,
                                                              &after_reset) == kSuccess &&
         now == 1;
}

std::vector<Device> instances_of(const NvmlLibrary& nvml, Device device) {
  unsigned int most = 0;
  nvml.call<int(Device, unsigned int*)>("nvmlDeviceGetMaxMigDeviceCount", device, &most);
  std::vector<Device> instances;
  for (unsigned int i = 0; i < most; ++i) {
    Device instance = nullptr;  // the numbers have gaps
    if (nvml.call<int(Device, unsigned int, Device*)>("nvmlDeviceGetMigDeviceHandleByIndex", device, i,
                                                      &instance) == kSuccess)
      instances.push_back(instance);
  }
  return instances;
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
    unsigned int celsius = 0;
    const int status = nvml_.call<int(Device, unsigned int, unsigned int*)>("nvmlDeviceGetTemperature",
                                                                            device, kCoreSensor, &celsius);
    if (status == kSuccess) sample.temperature_celsius = celsius;
    return sample;
  }

 private:
  NvmlLibrary nvml_;
};

}  // namespace

std::vector<Gpu> read_gpus_from_nvml(const char* library) {
  const NvmlLibrary nvml(library);
  unsigned int count = 0;
  if (!nvml.started() || nvml.call<int(unsigned int*)>("nvmlDeviceGetCount_v2", &count) != kSuccess)
    return {};
  std::vector<Gpu> gpus;
  std::vector<Device> instances;
  for (unsigned int i = 0; i < count; ++i) {
    const Device device = nvml.device(i);
    if (device == nullptr) continue;
    gpus.push_back(describe(nvml, device, static_cast<int>(i)));
    if (!is_divided(nvml, device)) continue;
    gpus.back().mig = Mig::divided;
    for (const Device instance : instances_of(nvml, device)) instances.push_back(instance);
  }
  for (const Device instance : instances) {
    gpus.push_back(describe(nvml, instance, static_cast<int>(count++)));
    gpus.back().mig = Mig::instance;
  }
  return gpus;
}

std::string cuda_version_from_nvml(const char* library) {
  const NvmlLibrary nvml(library);
  int version = 0;
  if (!nvml.started() || nvml.call<int(int*)>("nvmlSystemGetCudaDriverVersion_v2", &version) != kSuccess)
    return {};
  return cuda_version_text(version);
}

std::unique_ptr<GpuMonitor> open_gpu_monitor(const char* library) {
  return std::make_unique<NvmlMonitor>(library);
}

}  // namespace cxtrain
