#include "cxtrain/device/cuda_driver.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "cxtrain/base/command.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/text.h"
#include "cxtrain/device/driver_library.h"

namespace cxtrain {
namespace {

// The few declarations of the driver's stable C interface that are needed.
using CudaDevice = int;
struct CudaUuid {
  std::array<unsigned char, 16> bytes;
};
constexpr int kCudaSuccess = 0, kCudaNoDevice = 100;
constexpr int kComputeModeAttribute = 20, kCapabilityMajor = 75, kCapabilityMinor = 76;

class CudaLibrary {
 public:
  // What it starts when it is asked goes on in threads of its own: it is never closed.
  explicit CudaLibrary(const char* name) : library_(name, RTLD_NODELETE) {}

  explicit operator bool() const { return static_cast<bool>(library_); }

  template <class Signature, class... Args>
  int call(const char* name, Args... args) const {
    constexpr int kNotFound = 500;
    return library_.call_or<Signature>(kNotFound, name, args...);
  }

  std::optional<int> attribute(int which, CudaDevice device) const {
    int value = 0;
    const int status = call<int(int*, int, CudaDevice)>("cuDeviceGetAttribute", &value, which, device);
    return status == kCudaSuccess ? std::optional(value) : std::nullopt;
  }

 private:
  DriverLibrary library_;
};

Gpu describe_cuda_device(const CudaLibrary& cuda, CudaDevice device, int index) {
  Gpu gpu;
  gpu.index = index;
  std::array<char, 256> name{};
  if (cuda.call<int(char*, int, CudaDevice)>("cuDeviceGetName", name.data(),
                                             static_cast<int>(name.size() - 1), device) == kCudaSuccess)
    gpu.name = name.data();
  CudaUuid uuid{};
  // The older function gives of an instance the UUID of the GPU that is divided.
  if (cuda.call<int(CudaUuid*, CudaDevice)>("cuDeviceGetUuid_v2", &uuid, device) == kCudaSuccess ||
      cuda.call<int(CudaUuid*, CudaDevice)>("cuDeviceGetUuid", &uuid, device) == kCudaSuccess) {
    // The driver names an instance "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
    if (gpu.name.find(" MIG ") != std::string::npos) gpu.mig = Mig::instance;
    gpu.uuid = (gpu.mig == Mig::instance ? "MIG-" : "GPU-") +
               uuid_text({reinterpret_cast<const char*>(uuid.bytes.data()), uuid.bytes.size()});
  }
  std::size_t bytes = 0;
  if (cuda.call<int(std::size_t*, CudaDevice)>("cuDeviceTotalMem_v2", &bytes, device) == kCudaSuccess)
    gpu.memory_total_mib = static_cast<std::int64_t>(bytes >> 20);
  if (const auto mode = cuda.attribute(kComputeModeAttribute, device)) {
    static constexpr std::array kModes{"default", "exclusive_thread", "prohibited", "exclusive_process"};
    if (*mode >= 0 && *mode < static_cast<int>(kModes.size()))
      gpu.compute_mode = kModes[static_cast<std::size_t>(*mode)];
  }
  const auto major = cuda.attribute(kCapabilityMajor, device),
             minor = cuda.attribute(kCapabilityMinor, device);
  if (major && minor) gpu.compute_capability = std::to_string(*major) + "." + std::to_string(*minor);
  return gpu;
}

std::string name_of_status(const CudaLibrary& cuda, int status) {
  const char* name = nullptr;
  if (cuda.call<int(int, const char**)>("cuGetErrorName", status, &name) != kCudaSuccess || name == nullptr)
    return "error " + std::to_string(status);
  return std::string(name) + " (" + std::to_string(status) + ")";
}

/// The hexadecimal digits, without prefix and hyphens.
std::string digits_of(std::string_view uuid) {
  if (uuid.starts_with("GPU-") || uuid.starts_with("MIG-")) uuid.remove_prefix(4);
  std::string digits;
  for (const char c : uuid) {
    if (c != '-') digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return digits;
}

/// Fills in what the one lacks and the other has.
void complete(Gpu& gpu, const Gpu& seen_by_cuda) {
  if (gpu.name.empty()) gpu.name = seen_by_cuda.name;
  if (gpu.memory_total_mib == 0) gpu.memory_total_mib = seen_by_cuda.memory_total_mib;
  if (!seen_by_cuda.compute_capability.empty()) gpu.compute_capability = seen_by_cuda.compute_capability;
}

}  // namespace

void number_gpus_by_pci_bus() { setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0); }

std::optional<CudaView> read_gpus_from_driver(const char* library) {
  const CudaLibrary cuda(library);
  if (!cuda) return std::nullopt;
  number_gpus_by_pci_bus();
  CudaView view;
  const int status = cuda.call<int(unsigned int)>("cuInit", 0U);
  int version = 0;
  if (cuda.call<int(int*)>("cuDriverGetVersion", &version) == kCudaSuccess)
    view.version = cuda_version_text(version);
  if (status != kCudaSuccess) {
    // CUDA_VISIBLE_DEVICES may show none, and a machine may have none: nothing has failed then.
    if (status != kCudaNoDevice) view.failure = "cuInit fails with " + name_of_status(cuda, status);
    return view;
  }
  int count = 0;
  if (cuda.call<int(int*)>("cuDeviceGetCount", &count) != kCudaSuccess) return view;
  for (int i = 0; i < count; ++i) {
    CudaDevice device = 0;
    if (cuda.call<int(CudaDevice*, int)>("cuDeviceGet", &device, i) == kCudaSuccess)
      view.gpus.push_back(describe_cuda_device(cuda, device, i));
  }
  return view;
}

std::optional<CudaView> read_gpus_from_driver_in_child(const char* library, int most_seconds) {
  {
    const CudaLibrary cuda(library);
    if (!cuda) return std::nullopt;  // nothing to start a process for
    int count = 0;
    const bool started = cuda.call<int(int*)>("cuDeviceGetCount", &count) == kCudaSuccess;
    if (started) return read_gpus_from_driver(library);
  }
  const std::optional<ChildAnswer> answer = answer_of_child(
      [&] {
        try {
          return to_message(read_gpus_from_driver(library).value_or(CudaView{}));
        } catch (...) {
          return std::string();  // the parent finds no view in an empty text, and reports a failure
        }
      },
      most_seconds);
  if (!answer) return read_gpus_from_driver(library);
  try {
    return from_message<CudaView>(answer->text);
  } catch (const std::exception&) {
    CudaView view;
    view.failure =
        "the driver does not answer (a process that asked it for its GPUs did not come back with them)";
    return view;
  }
}

void join_gpus(std::vector<Gpu> nvml, const std::optional<CudaView>& cuda, Node& node) {
  node.gpus = std::move(nvml);
  node.visible.reset();
  if (!cuda) return;
  if (!cuda->version.empty()) node.cuda_version = cuda->version;
  node.cuda_failure = cuda->failure;
  node.visible.emplace();
  int next = 0;
  for (const Gpu& gpu : node.gpus) next = std::max(next, gpu.index + 1);
  for (const Gpu& seen : cuda->gpus) {
    const auto known =
        std::ranges::find_if(node.gpus, [&](const Gpu& gpu) { return same_uuid(gpu.uuid, seen.uuid); });
    if (known != node.gpus.end()) {
      complete(*known, seen);
      node.visible->push_back(known->uuid);
      continue;
    }
    Gpu& added = node.gpus.emplace_back(seen);
    added.index = next++;
    node.visible->push_back(added.uuid);
  }
}

bool same_uuid(std::string_view one, std::string_view other) {
  return !one.empty() && digits_of(one) == digits_of(other);
}

std::string other_gpu_than_planned(std::string_view device, std::string_view planned,
                                   const std::optional<std::string>& found) {
  if (planned.empty() || !found || found->empty() || same_uuid(planned, *found)) return {};
  return std::string(device) + " is the GPU " + *found + ", but the plan means " + std::string(planned) +
         " by it: CUDA numbers the GPUs in another order than the driver did before the run. Set "
         "CUDA_DEVICE_ORDER=PCI_BUS_ID "
         "in the job's environment, and CUDA_VISIBLE_DEVICES nowhere but there";
}

}  // namespace cxtrain
