#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/cuda/nccl_library.h"
#include "cxtrain/cuda/stream_work.h"

namespace cxtrain {

/// NCCL between the GPUs of one process: a communicator for each of them, driven by one thread in NCCL's
/// groups, on each device's current stream. The world's watchdog ends the process when something does not
/// end, or NCCL finds an error in the background. Errors name the device, the operation, NCCL's own words and
/// what to do.
class NcclPeers final : public PeerCommunicator {
 public:
  /// World and library outlive it.
  NcclPeers(World& world, std::span<const c10::Device> devices, const NcclLibrary& library = nccl_library());
  /// Closes the communicators; gives them up after an error, and while an exception is under way that came
  /// after them.
  ~NcclPeers() override;
  NcclPeers(const NcclPeers&) = delete;
  NcclPeers& operator=(const NcclPeers&) = delete;

  std::string description() const override { return "NCCL " + nccl_version_text(version_); }
  void broadcast(Tensors tensors) override;
  void reduce(Tensors tensors) override;

 private:
  /// Makes a device's calls between NCCL's marks of a group, each device's with itself as the current one.
  void grouped(const char* name, const std::function<ncclResult_t(std::size_t)>& calls);
  /// The same for operations on the devices' current streams.
  void submit(const char* name, Tensors tensors,
              const std::function<ncclResult_t(const at::Tensor&, ncclComm_t, cudaStream_t)>& operation);
  void require(const char* name, ncclResult_t status, std::size_t member);
  std::string told(const char* name, ncclResult_t status, std::size_t member) const;
  std::string find_error() const;
  void close();

  Watchdog& watchdog_;
  std::vector<c10::Device> devices_;
  const NcclLibrary& library_;
  int version_ = 0;
  std::vector<ncclComm_t> comms_;  ///< of each device
  std::atomic<bool> failed_ = false;
  std::optional<StreamWork> work_;
  int exceptions_ = std::uncaught_exceptions();  ///< under way when it was made
};

}  // namespace cxtrain
