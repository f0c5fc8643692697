#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/device/hardware.h"

/// What CUDA's driver tells of the GPUs that this process may use. The library belongs to the driver and is
/// opened by name; what is asked of it makes no context on any GPU.
namespace cxtrain {

inline constexpr const char* kCudaLibrary = "libcuda.so.1";

/// Has CUDA number the GPUs as nvidia-smi and the plan do, where it would put the fastest first, unless the
/// environment says how. The driver reads that when it starts, which an MPI that knows of CUDA makes it do:
/// to be called before MPI starts.
void number_gpus_by_pci_bus();

/// The GPUs that CUDA shows, as it numbers them: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER have been
/// applied, and an instance of a GPU that is divided by MIG is a device of its own.
struct CudaView {
  /// `index` counts them; what only NVML tells keeps its default.
  std::vector<Gpu> gpus;
  /// The newest CUDA that the driver can run, "13.0"; empty where it does not tell.
  std::string version;
  /// Why CUDA cannot start on this machine; empty where it can, or has no GPU to start on.
  std::string failure;

  void fields(auto&& field) { CXTRAIN_EACH(field, gpus, version, failure); }
};

/// Absent without the library. Starts the driver in this process: a child that it forks afterwards can use no
/// GPU.
std::optional<CudaView> read_gpus_from_driver(const char* library = kCudaLibrary);

/// The same by a child that ends at once, for a process that may fork: slower, as the driver starts once more
/// where this process comes to train. A driver that takes longer than `most_seconds` has failed. Where this
/// process has started the driver already, it is asked here, as it would not start in a child.
std::optional<CudaView> read_gpus_from_driver_in_child(const char* library = kCudaLibrary,
                                                       int most_seconds = 60);

/// What NVML tells of all GPUs of the machine and the driver of those that may be used, as one: the node's
/// GPUs, which of them CUDA shows, and in which order. `nvml` may be empty (a container without that
/// library), `cuda` absent.
void join_gpus(std::vector<Gpu> nvml, const std::optional<CudaView>& cuda, Node& node);

/// Whether both name the same GPU or the same MIG instance, by whatever prefix: "GPU-", "MIG-" or none.
bool same_uuid(std::string_view one, std::string_view other);

/// What to say where a rank's device is not the GPU that was planned; empty where it is, or where one of them
/// is not known. `found`: what CUDA says of the device that the rank has selected.
std::string other_gpu_than_planned(std::string_view device, std::string_view planned,
                                   const std::optional<std::string>& found);

}  // namespace cxtrain
