#include "cxtrain/cuda/nccl_peers.h"

#include <c10/core/DeviceGuard.h>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/error.h"

namespace cxtrain {

NcclPeers::NcclPeers(World& world, std::span<const c10::Device> devices, const NcclLibrary& library)
    : watchdog_(world.watchdog()),
      devices_(devices.begin(), devices.end()),
      library_(library),
      comms_(devices.size(), nullptr) {
  require("ncclGetVersion", library_.get_version(&version_), 0);
  check_nccl_version(version_);
  ncclUniqueId id{};
  require("ncclGetUniqueId", library_.get_unique_id(&id), 0);
  try {
    grouped("ncclCommInitRankConfig", [&](std::size_t member) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 1;
      return library_.comm_init_rank_config(&comms_[member], static_cast<int>(devices_.size()), id,
                                            static_cast<int>(member), &config);
    });
  } catch (...) {
    abort_communicators(library_, comms_);
    throw;
  }
  work_.emplace(watchdog_, [this] { return find_error(); });
}

NcclPeers::~NcclPeers() {
  work_.reset();
  end_communicators(library_, comms_, failed_ || std::uncaught_exceptions() > exceptions_,
                    [this] { close(); });
}

void NcclPeers::grouped(const char* name, const std::function<ncclResult_t(std::size_t)>& calls) {
  if (failed_) throw CommunicationError(std::string(name) + ": NCCL has failed before");
  const Watchdog::Wait wait(watchdog_, name);
  const c10::DeviceGuard guard(devices_[0]);
  require("ncclGroupStart", library_.group_start(), 0);
  ncclResult_t status = ncclSuccess;
  std::size_t member = 0;
  for (; member < devices_.size(); ++member) {
    const c10::DeviceGuard here(devices_[member]);
    status = calls(member);
    if (status != ncclSuccess) break;
  }
  // A group that was begun is ended, whatever became of it: NCCL's state is the thread's.
  const ncclResult_t ended = library_.group_end();
  if (member < devices_.size()) require(name, status, member);
  require(name, ended, 0);
}

void NcclPeers::submit(
    const char* name, Tensors tensors,
    const std::function<ncclResult_t(const at::Tensor&, ncclComm_t, cudaStream_t)>& operation) {
  if (tensors[0].empty()) return;
  grouped(name, [&](std::size_t member) {
    auto* const stream = static_cast<cudaStream_t>(current_stream(devices_[member]).native_handle());
    ncclResult_t status = ncclSuccess;
    for (const at::Tensor& tensor : tensors[member]) {
      status = operation(tensor, comms_[member], stream);
      if (status != ncclSuccess) break;
    }
    return status;
  });
  for (const c10::Device device : devices_) work_->submitted(name, current_stream(device));
}

void NcclPeers::broadcast(Tensors tensors) {
  submit("ncclBroadcast", tensors, [&](const at::Tensor& tensor, ncclComm_t comm, cudaStream_t stream) {
    void* const data = tensor.mutable_data_ptr();
    return library_.broadcast(data, data, tensor.nbytes(), ncclUint8, /*root=*/0, comm, stream);
  });
}

void NcclPeers::reduce(Tensors tensors) {
  submit("ncclReduce", tensors, [&](const at::Tensor& tensor, ncclComm_t comm, cudaStream_t stream) {
    void* const data = tensor.mutable_data_ptr();
    return library_.reduce(data, data, static_cast<std::size_t>(tensor.numel()),
                           nccl_type(tensor.scalar_type()), ncclSum, /*root=*/0, comm, stream);
  });
}

std::string NcclPeers::told(const char* name, ncclResult_t status, std::size_t member) const {
  return std::string(name) + " on " + devices_[member].str() + ", number " + std::to_string(member) +
         " of the " + std::to_string(devices_.size()) +
         " devices of this process: " + nccl_reason(library_, comms_[member], status);
}

void NcclPeers::require(const char* name, ncclResult_t status, std::size_t member) {
  if (status == ncclSuccess) return;
  failed_ = true;
  throw CommunicationError(told(name, status, member));
}

std::string NcclPeers::find_error() const {
  if (failed_) return {};
  for (std::size_t member = 0; member < comms_.size(); ++member) {
    const ncclResult_t status = nccl_async_error(library_, comms_[member]);
    if (status != ncclSuccess) return told("NCCL's connections", status, member);
  }
  return {};
}

void NcclPeers::close() {
  grouped("ncclCommFinalize", [&](std::size_t member) { return library_.comm_finalize(comms_[member]); });
  for (std::size_t member = 0; member < comms_.size(); ++member) {
    require("ncclCommDestroy", library_.comm_destroy(comms_[member]), member);
  }
}

}  // namespace cxtrain
