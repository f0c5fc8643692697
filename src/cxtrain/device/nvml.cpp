#include "cxtrain/device/nvml.h"

#include <dlfcn.h>

#include <array>
#include <memory>

namespace cxtrain {
namespace {

// The few declarations of NVML's stable C interface that are needed; its header comes with the CUDA toolkit
// only.
using Device = struct nvmlDevice_st*;
struct Memory {
  unsigned long long total, free, used;  // bytes
};
struct Utilization {
  unsigned int gpu, memory;  // percent
};
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

class Nvml {
 public:
  explicit Nvml(const char* name) : library_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    started_ = library_ && call<int()>("nvmlInit_v2") == kSuccess;
  }
  ~Nvml() {
    if (started_) call<int()>("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool started() const { return started_; }

  /// Calls the function of this name; an error of NVML's when the library has none.
  template <class Signature, class... Args>
  int call(const char* name, Args... args) const {
    constexpr int kFunctionNotFound = 13;
    auto* function = reinterpret_cast<Signature*>(dlsym(library_.get(), name));
    return function == nullptr ? kFunctionNotFound : function(args...);
  }

 private:
  std::unique_ptr<void, CloseLibrary> library_;
  bool started_ = false;
};

std::string text_of(const Nvml& nvml, const char* function, Device device) {
  std::array<char, 97> text{};
  const int status = nvml.call<int(Device, char*, unsigned int)>(function, device, text.data(),
                                                                 static_cast<unsigned int>(text.size() - 1));
  return status == kSuccess ? text.data() : "";
}

std::string compute_mode_of(const Nvml& nvml, Device device) {
  static constexpr std::array kNames{"default", "exclusive_thread", "prohibited", "exclusive_process"};
  unsigned int mode = 0;
  const int status = nvml.call<int(Device, unsigned int*)>("nvmlDeviceGetComputeMode", device, &mode);
  return status == kSuccess && mode < kNames.size() ? kNames[mode] : "default";
}

Gpu describe(const Nvml& nvml, Device device, int index) {
  constexpr unsigned long long kMib = 1ULL << 20;
  Gpu gpu;
  gpu.index = index;
  gpu.name = text_of(nvml, "nvmlDeviceGetName", device);
  gpu.uuid = text_of(nvml, "nvmlDeviceGetUUID", device);
  gpu.compute_mode = compute_mode_of(nvml, device);
  Memory memory{};
  if (nvml.call<int(Device, Memory*)>("nvmlDeviceGetMemoryInfo", device, &memory) == kSuccess) {
    gpu.memory_total_mib = static_cast<std::int64_t>(memory.total / kMib);
    gpu.memory_used_mib = static_cast<std::int64_t>(memory.used / kMib);
  }
  Utilization utilization{};
  if (nvml.call<int(Device, Utilization*)>("nvmlDeviceGetUtilizationRates", device, &utilization) ==
      kSuccess) {
    gpu.utilization = static_cast<int>(utilization.gpu);
  }
  // Asked with room for none, NVML answers how many processes there are.
  unsigned int processes = 0;
  const int status = nvml.call<int(Device, unsigned int*, void*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3", device, &processes, static_cast<void*>(nullptr));
  if (status == kSuccess || status == kInsufficientSize) gpu.processes = static_cast<int>(processes);
  return gpu;
}

}  // namespace

std::vector<Gpu> read_gpus_from_nvml(const char* library) {
  const Nvml nvml(library);
  unsigned int count = 0;
  if (!nvml.started() || nvml.call<int(unsigned int*)>("nvmlDeviceGetCount_v2", &count) != kSuccess)
    return {};
  std::vector<Gpu> gpus;
  for (unsigned int i = 0; i < count; ++i) {
    Device device = nullptr;
    const int status = nvml.call<int(unsigned int, Device*)>("nvmlDeviceGetHandleByIndex_v2", i, &device);
    if (status == kSuccess) gpus.push_back(describe(nvml, device, static_cast<int>(i)));
  }
  return gpus;
}

}  // namespace cxtrain
