// CUDA's driver as a test wants it: it shows the devices that FAKE_CUDA_SHOWS names by letters, in that order
// (a and b are the GPUs of fake_nvml.cpp, d and e its MIG instances, x one that NVML does not know), runs the
// CUDA that FAKE_CUDA_VERSION names, starts with the status FAKE_CUDA_INIT, and with FAKE_CUDA_HANGS never.
// `fake_cuda_starts()` counts its starts in this process.
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int cuda_starts = 0;

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

constexpr int kCudaOk = 0, kCudaInvalidValue = 1, kCudaNotInitialized = 3;

struct FakeUuid {
  unsigned char bytes[16];
};

/// The devices that are shown, as letters.
std::string shown_devices() { return setting("FAKE_CUDA_SHOWS", "ab"); }

}  // namespace

extern "C" {

int fake_cuda_starts() { return cuda_starts; }

int cuInit(unsigned int) {
  ++cuda_starts;
  while (std::getenv("FAKE_CUDA_HANGS") != nullptr) pause();
  return std::stoi(setting("FAKE_CUDA_INIT", "0"));
}
int cuDriverGetVersion(int* version) {
  *version = std::stoi(setting("FAKE_CUDA_VERSION", "13000"));
  return kCudaOk;
}
int cuGetErrorName(int status, const char** name) {
  if (status != 803) return kCudaInvalidValue;
  *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
  return kCudaOk;
}
int cuDeviceGetCount(int* count) {
  if (cuda_starts == 0) return kCudaNotInitialized;
  *count = static_cast<int>(shown_devices().size());
  return kCudaOk;
}
// A device is its letter.
int cuDeviceGet(int* device, int ordinal) {
  const std::string all = shown_devices();
  if (ordinal < 0 || ordinal >= static_cast<int>(all.size())) return kCudaInvalidValue;
  *device = all[static_cast<std::size_t>(ordinal)];
  return kCudaOk;
}
int cuDeviceGetUuid_v2(FakeUuid* uuid, int device) {
  std::memset(uuid->bytes, device - 'a' + 0x0a, sizeof uuid->bytes);
  return kCudaOk;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, device == 'd' || device == 'e' ? "Fake C MIG 1g.5gb" : "Fake by CUDA",
               static_cast<std::size_t>(size));
  return kCudaOk;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{900} << 20;
  return kCudaOk;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute == 20) return *value = 3, kCudaOk;                      // exclusive_process
  if (attribute == 75) return *value = device == 'b' ? 7 : 9, kCudaOk;  // compute capability
  if (attribute == 76) return *value = 0, kCudaOk;
  return kCudaInvalidValue;
}
}
