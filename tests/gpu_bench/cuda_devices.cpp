#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>

#include "gpu_bench/cuda_measurement.h"

namespace cxtrain::gpu_bench {
namespace {

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex.data();
  }
  return text;
}

}  // namespace

nlohmann::json cuda_devices() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    throw NotMeasurable(std::string("no GPU: ") + cudaGetErrorString(error));
  if (count == 0) throw NotMeasurable("no GPU is visible");
  nlohmann::json devices = nlohmann::json::array();
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess)
      throw NotMeasurable(std::string("cudaGetDeviceProperties: ") + cudaGetErrorString(error));
    devices.push_back(
        {{"name", properties.name},
         {"uuid", uuid_text(properties.uuid)},
         {"memory_mib", properties.totalGlobalMem >> 20},
         {"compute_capability", std::to_string(properties.major) + "." + std::to_string(properties.minor)}});
  }
  return devices;
}

}  // namespace cxtrain::gpu_bench
