// The driver's management library as a test wants it: GPU 0 tells everything, GPU 1 as an old driver does and
// not all of it, GPU 2 is divided by MIG into instances of the numbers 0 and 2. `fake_nvml_sessions()` counts
// what was started and not shut down. The same file of a library plays CUDA's driver as well.
#include <cstring>

#include "fake_libcuda.cpp"

namespace {

struct Device {
  unsigned int index;
};
Device devices[] = {{0}, {1}, {2}, {3}, {4}};  // the instances last
constexpr const char* kNames[] = {"Fake A", "Fake B", "Fake C", "Fake C MIG 1g.5gb", "Fake C MIG 1g.5gb"};
constexpr const char* kUuids[] = {
    "GPU-0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a", "GPU-0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b",
    "GPU-0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c", "MIG-0d0d0d0d-0d0d-0d0d-0d0d-0d0d0d0d0d0d",
    "MIG-0e0e0e0e-0e0e-0e0e-0e0e-0e0e0e0e0e0e"};
int open_sessions = 0;
unsigned int temperature = 40;

constexpr int kSuccess = 0, kNotSupported = 3, kInsufficientSize = 7, kInvalidArgument = 2;
constexpr unsigned long long kMib = 1ULL << 20;

struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};
struct Utilization {
  unsigned int gpu, memory;
};

int write(char* text, unsigned int size, const char* value) {
  std::strncpy(text, value, size);
  return kSuccess;
}

}  // namespace

extern "C" {

int fake_nvml_sessions() { return open_sessions; }

int nvmlInit_v2() {
  ++open_sessions;
  return kSuccess;
}
int nvmlShutdown() {
  --open_sessions;
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 3;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device** device) {
  if (index > 2) return kInvalidArgument;
  *device = &devices[index];
  return kSuccess;
}
int nvmlDeviceGetName(Device* device, char* text, unsigned int size) {
  return write(text, size, kNames[device->index]);
}
int nvmlDeviceGetUUID(Device* device, char* text, unsigned int size) {
  return write(text, size, kUuids[device->index]);
}
int nvmlDeviceGetComputeMode(Device* device, unsigned int* mode) {
  *mode = device->index == 1 ? 3 : 0;
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(Device*, MemoryV1* memory) {
  *memory = {1000 * kMib, 200 * kMib, 800 * kMib};
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo_v2(Device* device, MemoryV2* memory) {
  if (device->index != 0 || memory->version != (sizeof(MemoryV2) | 2U << 24)) return kNotSupported;
  *memory = {memory->version, 1000 * kMib, 700 * kMib, 200 * kMib, 100 * kMib};
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(Device* device, Utilization* utilization) {
  if (device->index != 0) return kNotSupported;
  *utilization = {73, 20};
  return kSuccess;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12040;
  return kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(Device* device, int* major, int* minor) {
  if (device->index == 1) return kNotSupported;
  *major = 8;
  *minor = 6;
  return kSuccess;
}
int nvmlDeviceGetMigMode(Device* device, unsigned int* now, unsigned int* after_reset) {
  if (device->index == 1) return kNotSupported;
  *now = *after_reset = device->index == 2 ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetMaxMigDeviceCount(Device* device, unsigned int* count) {
  *count = device->index == 2 ? 7 : 0;
  return kSuccess;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device* device, unsigned int index, Device** instance) {
  if (device->index != 2 || (index != 0 && index != 2)) return kInvalidArgument;
  *instance = &devices[index == 0 ? 3 : 4];
  return kSuccess;
}
int nvmlDeviceGetTemperature(Device* device, unsigned int sensor, unsigned int* celsius) {
  if (device->index == 1 || sensor != 0) return kNotSupported;
  *celsius = ++temperature;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned int* count, void*) {
  *count = device->index == 1 ? 2 : 0;
  return *count == 0 ? kSuccess : kInsufficientSize;
}
}
