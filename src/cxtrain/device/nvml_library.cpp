#include "cxtrain/device/nvml_library.h"

#include <array>

namespace cxtrain {
namespace {

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

}  // namespace

NvmlLibrary::NvmlLibrary(const char* name) : library_(name) {
  started_ = library_ && call<int()>("nvmlInit_v2") == kSuccess;
}

NvmlLibrary::~NvmlLibrary() {
  if (started_) call<int()>("nvmlShutdown");
}

NvmlLibrary::Device NvmlLibrary::device(unsigned int index) const {
  return ask<Device>("nvmlDeviceGetHandleByIndex_v2", index).value_or(nullptr);
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

std::string NvmlLibrary::text(const char* name, Device device) const {
  std::array<char, 97> text{};
  const int status = call<int(Device, char*, unsigned int)>(name, device, text.data(),
                                                            static_cast<unsigned int>(text.size() - 1));
  return status == kSuccess ? text.data() : "";
}

std::optional<std::string> NvmlLibrary::compute_mode(Device device) const {
  static constexpr std::array kNames{"default", "exclusive_thread", "prohibited", "exclusive_process"};
  const auto mode = ask<unsigned int>("nvmlDeviceGetComputeMode", device);
  return mode && *mode < kNames.size() ? std::optional<std::string>(kNames[*mode]) : std::nullopt;
}

}  // namespace cxtrain
