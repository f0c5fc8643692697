#include "cxtrain/device/nvml.h"

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/transformed.h"
#include "cxtrain/device/driver_library.h"
#include "cxtrain/device/hardware.h"

namespace cxtrain {
namespace {

/// The driver's management library with a session in it. Its stable C interface is declared where it is used,
/// as its header comes with the CUDA toolkit only. What the library lacks, or refuses to tell, is absent:
/// nothing here throws for it.
class NvmlLibrary {
 public:
  using Device = struct nvmlDevice_st*;
  static constexpr int kSuccess = 0;
  static constexpr int kInsufficientSize = 7;

  /// A GPU or a MIG instance.
  struct Found {
    Device device = nullptr;
    int index = 0;  ///< Gpu::index
    Mig mig = Mig::none;
    Device divided = nullptr;  ///< of an instance: the GPU that it is a part of
  };

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

  /// What the function of this name writes to where its last argument points.
  template <class Value, class... Args>
  std::optional<Value> ask(const char* name, Args... args) const {
    Value value{};
    const int status = call<int(Args..., Value*)>(name, args..., &value);
    return status == kSuccess ? std::optional(value) : std::nullopt;
  }

  /// The GPU of this index in PCI bus order; null for none.
  Device device(unsigned int index) const {
    return ask<Device>("nvmlDeviceGetHandleByIndex_v2", index).value_or(nullptr);
  }
  /// All GPUs in PCI bus order, then the instances of those that MIG divides.
  std::vector<Found> devices() const;

  /// What the function of this name writes as a text; empty where it does not succeed.
  std::string text(const char* name, Device device) const {
    std::array<char, 97> text{};
    const int status = call<int(Device, char*, unsigned int)>(name, device, text.data(),
                                                              static_cast<unsigned int>(text.size() - 1));
    return status == kSuccess ? text.data() : "";
  }
  std::string uuid(Device device) const { return text("nvmlDeviceGetUUID", device); }
  /// Gpu::compute_mode.
  std::optional<std::string> compute_mode(Device device) const {
    static constexpr std::array kNames{"default", "exclusive_thread", "prohibited", "exclusive_process"};
    const auto mode = ask<unsigned int>("nvmlDeviceGetComputeMode", device);
    return mode && *mode < kNames.size() ? std::optional<std::string>(kNames[*mode]) : std::nullopt;
  }

 private:
  DriverLibrary library_;
  bool started_ = false;
};

/// Whether MIG divides this GPU.
bool is_divided(const NvmlLibrary& nvml, NvmlLibrary::Device device) {
  unsigned int now = 0, after_reset = 0;
  return nvml.call<int(NvmlLibrary::Device, unsigned int*, unsigned int*)>(
             "nvmlDeviceGetMigMode", device, &now, &after_reset) == NvmlLibrary::kSuccess &&
         now == 1;
}

std::vector<NvmlLibrary::Device> instances_of(const NvmlLibrary& nvml, NvmlLibrary::Device device) {
  const unsigned int most = nvml.ask<unsigned int>("nvmlDeviceGetMaxMigDeviceCount", device).value_or(0);
  std::vector<NvmlLibrary::Device> instances;
  for (unsigned int i = 0; i < most; ++i) {  // the numbers have gaps
    const auto instance = nvml.ask<NvmlLibrary::Device>("nvmlDeviceGetMigDeviceHandleByIndex", device, i);
    if (instance) instances.push_back(*instance);
  }
  return instances;
}

std::vector<NvmlLibrary::Found> NvmlLibrary::devices() const {
  if (!started_) return {};
  const unsigned int count = ask<unsigned int>("nvmlDeviceGetCount_v2").value_or(0);
  int next = static_cast<int>(count);
  std::vector<Found> found, instances;
  for (unsigned int i = 0; i < count; ++i) {
    const Device gpu = device(i);
    if (gpu == nullptr) continue;
    const bool divided = is_divided(*this, gpu);
    found.push_back({gpu, static_cast<int>(i), divided ? Mig::divided : Mig::none, nullptr});
    if (!divided) continue;
    for (const Device instance : instances_of(*this, gpu))
      instances.push_back({instance, next++, Mig::instance, gpu});
  }
  found.insert(found.end(), instances.begin(), instances.end());
  return found;
}

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

std::optional<std::int64_t> count_of_ecc_errors(const NvmlLibrary& nvml, Device device) {
  unsigned int on = 0, on_after_reboot = 0;
  const int status = nvml.call<int(Device, unsigned int*, unsigned int*)>("nvmlDeviceGetEccMode", device, &on,
                                                                          &on_after_reboot);
  if (status == kSuccess && on == 0) return std::nullopt;
  constexpr unsigned int kUncorrected = 1, kSinceLoaded = 0;
  const auto errors =
      nvml.ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceLoaded);
  // All bits set are NVML's word for a value that there is not.
  if (!errors || *errors > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return static_cast<std::int64_t>(*errors);
}

std::optional<std::vector<std::string>> reasons_for_lower_clocks(const NvmlLibrary& nvml, Device device) {
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
std::optional<bool> reaches_memory(const NvmlLibrary& nvml, Device from, Device to) {
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

std::vector<Gpu> read_gpus_from_nvml(const char* library) {
  const NvmlLibrary nvml(library);
  return transformed(nvml.devices(), [&](const NvmlLibrary::Found& found) { return describe(nvml, found); });
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
