#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cuda/nccl_communicator.h"
#include "cxtrain/cuda/nccl_library.h"
#include "cxtrain/cuda/nccl_peers.h"
#include "cxtrain/device/cuda_driver.h"
#include "cxtrain/device/driver_library.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/plugin/fingerprint.h"

/// CUDA and NCCL as an `Accelerator`: the only file that is compiled against CUDA's run-time library.
namespace cxtrain {
namespace {

/// The driver's answer, which tells the instances of a GPU that is divided by MIG from each other; where it
/// has none, the run-time library's.
std::array<char, 16> uuid_bytes(c10::Device device) {
  std::array<char, 16> bytes{};
  const DriverLibrary driver(kCudaLibrary, RTLD_NODELETE);  // threads of the driver go on after this
  CUuuid uuid{};
  if (driver.call_or<decltype(cuInit)>(CUDA_ERROR_UNKNOWN, "cuInit", 0U) == CUDA_SUCCESS &&
      driver.call_or<decltype(cuDeviceGetUuid)>(CUDA_ERROR_UNKNOWN, "cuDeviceGetUuid_v2", &uuid,
                                                device.index()) == CUDA_SUCCESS) {
    std::copy_n(uuid.bytes, bytes.size(), bytes.begin());
    return bytes;
  }
  cudaDeviceProp properties{};
  if (const cudaError_t failed = cudaGetDeviceProperties(&properties, device.index());
      failed != cudaSuccess) {
    throw CommunicationError(device.str() +
                             ": CUDA does not say which GPU it is: " + cudaGetErrorString(failed));
  }
  std::copy_n(properties.uuid.bytes, bytes.size(), bytes.begin());
  return bytes;
}

class CudaAccelerator final : public Accelerator {
 public:
  bool has_tf32(c10::Device device) const override {
    constexpr int kAmpere = 8;  // compute capability, "CUDA C++ Programming Guide", 17.2
    cudaDeviceProp properties{};
    return cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess && properties.major >= kAmpere;
  }

  std::string uuid(c10::Device device) const override {
    const std::array<char, 16> bytes = uuid_bytes(device);
    return "GPU-" + uuid_text({bytes.data(), bytes.size()});
  }

  std::unique_ptr<Communicator> connect(World& world, c10::Device device) override {
    return std::make_unique<NcclCommunicator>(world, device);
  }
  std::unique_ptr<PeerCommunicator> connect_peers(World& world,
                                                  std::span<const c10::Device> devices) override {
    return std::make_unique<NcclPeers>(world, devices);
  }

  bool lock(void* memory, std::size_t bytes) override {
    if (cudaHostRegister(memory, bytes, cudaHostRegisterDefault) == cudaSuccess) return true;
    cudaGetLastError();  // or the next kernel launch would report it
    return false;
  }
  void unlock(void* memory) override { cudaHostUnregister(memory); }

  AcceleratorVersions versions() const override {
    int driver = 0, runtime = 0, nccl = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    ncclGetVersion(&nccl);
    return {
        .cuda = "built with " + cuda_version_text(CUDART_VERSION) + ", runtime " +
                cuda_version_text(runtime) +
                (driver == 0 ? ", no driver on this machine" : ", driver for " + cuda_version_text(driver)),
        .nccl = nccl_version_text(nccl),
        .nccl_headers = nccl_version_text(NCCL_VERSION_CODE)};
  }
};

}  // namespace
}  // namespace cxtrain

__attribute__((visibility("default"))) const cxtrain::AcceleratorEntry* cxtrain_accelerator_v1() {
  static const cxtrain::AcceleratorEntry entry{CXTRAIN_FINGERPRINT, []() -> cxtrain::Accelerator& {
                                                 static cxtrain::CudaAccelerator cuda;
                                                 return cuda;
                                               }};
  return &entry;
}
