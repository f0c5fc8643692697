// The driver's management library as a test wants it: GPU 0 tells everything, GPU 1 as an old driver does and
// not all of it. `fake_nvml_sessions()` counts what was started and not shut down.
#include <cstring>

namespace {

struct Device {
  unsigned int index;
};
Device devices[] = {{0}, {1}};
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
  *count = 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device** device) {
  if (index > 1) return kInvalidArgument;
  *device = &devices[index];
  return kSuccess;
}
int nvmlDeviceGetName(Device* device, char* text, unsigned int size) {
  return write(text, size, device->index == 0 ? "Fake A" : "Fake B");
}
int nvmlDeviceGetUUID(Device* device, char* text, unsigned int size) {
  return write(text, size, device->index == 0 ? "GPU-fake-a" : "GPU-fake-b");
}
int nvmlDeviceGetComputeMode(Device* device, unsigned int* mode) {
  *mode = device->index == 0 ? 0 : 3;
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(Device*, MemoryV1* memory) {
  *memory = {1000 * kMib, 200 * kMib, 800 * kMib};
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo_v2(Device* device, MemoryV2* memory) {
  if (device->index == 1 || memory->version != (sizeof(MemoryV2) | 2U << 24)) return kNotSupported;
  *memory = {memory->version, 1000 * kMib, 700 * kMib, 200 * kMib, 100 * kMib};
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(Device* device, Utilization* utilization) {
  if (device->index == 1) return kNotSupported;
  *utilization = {73, 20};
  return kSuccess;
}
int nvmlDeviceGetTemperature(Device* device, unsigned int sensor, unsigned int* celsius) {
  if (device->index == 1 || sensor != 0) return kNotSupported;
  *celsius = ++temperature;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned int* count, void*) {
  *count = device->index == 0 ? 0 : 2;
  return *count == 0 ? kSuccess : kInsufficientSize;
}
}
