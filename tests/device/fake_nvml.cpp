// The driver's management library as a test wants it: GPU 0 tells everything, GPU 1 as an old driver does and
// not all of it, GPU 2 is divided by MIG into instances of the numbers 0 and 2. `fake_nvml_sessions()` counts
// what was started and not shut down. The same file of a library plays CUDA's driver as well.
//
// Of GPU 0 a test may say: FAKE_NVML_ECC (0: off), FAKE_NVML_ECC_ERRORS (not corrected since the driver was
// loaded), FAKE_NVML_CLOCKS (NVML's bits of why they are low), and by FAKE_NVML_READS and FAKE_NVML_WRITES
// what NVML answers for its access to GPU 1's memory (0: possible). The function FAKE_NVML_REFUSES is not
// supported.
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

unsigned long number_setting(const char* name, const char* otherwise) {
  return std::stoul(setting(name, otherwise));
}

bool refuses(const char* function) { return setting("FAKE_NVML_REFUSES", "") == function; }

/// Why the clocks are low. Only GPUs tell, no instances.
int clock_reasons(const Device& device, unsigned long long& reasons) {
  constexpr unsigned int kIdle = 0x1, kPowerBrake = 0x80;
  if (device.index == 1 || device.index > 2) return kNotSupported;
  reasons = device.index == 2 ? kIdle | kPowerBrake : number_setting("FAKE_NVML_CLOCKS", "0");
  return kSuccess;
}

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
  if (device->index > 2 || refuses(__func__)) return kNotSupported;
  *mode = device->index == 1 ? 3 : 0;
  return kSuccess;
}
int nvmlDeviceGetEccMode(Device* device, unsigned int* on, unsigned int* on_after_reboot) {
  if (device->index != 0 || refuses(__func__)) return kNotSupported;
  *on = number_setting("FAKE_NVML_ECC", "1") != 0 ? 1 : 0;
  *on_after_reboot = 1;
  return kSuccess;
}
int nvmlDeviceGetTotalEccErrors(Device* device, unsigned int type, unsigned int counter,
                                unsigned long long* errors) {
  if (device->index == 1 || device->index > 2 || refuses(__func__)) return kNotSupported;
  const bool uncorrected = type == 1, since_loaded = counter == 0;
  *errors = device->index == 2 ? 5 : number_setting("FAKE_NVML_ECC_ERRORS", "0");
  if (!uncorrected || !since_loaded) *errors += 1000;
  return kSuccess;
}
// The newer name and the older one.
int nvmlDeviceGetCurrentClocksEventReasons(Device* device, unsigned long long* reasons) {
  return refuses(__func__) ? kNotSupported : clock_reasons(*device, *reasons);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device* device, unsigned long long* reasons) {
  return refuses(__func__) ? kNotSupported : clock_reasons(*device, *reasons);
}
int nvmlDeviceGetP2PStatus(Device* from, Device* to, unsigned int capability, unsigned int* status) {
  if (refuses(__func__)) return kNotSupported;
  if (from == to || from->index > 1 || to->index > 1 || capability > 1) return kInvalidArgument;
  const char* access = capability == 0 ? "FAKE_NVML_READS" : "FAKE_NVML_WRITES";
  *status = from->index == 0 ? static_cast<unsigned int>(number_setting(access, "0")) : 0;
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
int nvmlSystemGetDriverVersion(char* text, unsigned int size) { return write(text, size, "580.65.06"); }
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
