#include "cxtrain/comm/make_communicator.h"

#include <algorithm>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/host_communicator.h"
#include "cxtrain/comm/per_device_communicator.h"
#include "cxtrain/comm/solo_communicator.h"
#include "cxtrain/comm/staged_communicator.h"

#ifdef CXTRAIN_WITH_CUDA
#include <c10/cuda/CUDAFunctions.h>

#include "cxtrain/comm/nccl/nccl_communicator.h"
#endif

namespace cxtrain {
namespace {

std::unique_ptr<Communicator> make_host_communicator(World& world) {
  auto* mpi = dynamic_cast<MpiWorld*>(&world);
  if (mpi == nullptr) throw CommunicationError("a world of several ranks needs MPI");
  return std::make_unique<HostCommunicator>(*mpi);
}

std::unique_ptr<Communicator> make_gpu_communicator(World& world, c10::Device device,
                                                    double timeout_seconds) {
#ifdef CXTRAIN_WITH_CUDA
  // CUDA's own word rather than the plan's: the plan read the driver's list, and what counts is what NCCL
  // will see.
  const std::vector<std::string> uuids = world.all_gather(gpu_uuid(device));
  if (!ranks_sharing_a_gpu(uuids)) return std::make_unique<NcclCommunicator>(world, device, timeout_seconds);
  return std::make_unique<StagedCommunicator>(make_host_communicator(world));
#else
  static_cast<void>(timeout_seconds);
  throw CommunicationError(
      "rank " + std::to_string(world.rank()) + " is to train on " + device.str() +
      ", but this cxtrain was built without CUDA; use --accelerator cpu, or configure it with "
      "-DCXTRAIN_CUDA=ON where the CUDA toolkit and NCCL are installed");
#endif
}

std::unique_ptr<Communicator> make_for_device(World& world, c10::Device device, double timeout_seconds) {
  return device.is_cuda() ? make_gpu_communicator(world, device, timeout_seconds)
                          : make_host_communicator(world);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(World& world, std::span<const c10::Device> devices,
                                                double timeout_seconds) {
  if (world.size() == 1) return std::make_unique<SoloCommunicator>();
  std::vector<PerDeviceCommunicator::Member> members;
  for (const c10::Device device : devices) {
    const auto same = [&](const auto& member) { return member.device == device; };
    if (std::any_of(members.begin(), members.end(), same)) continue;
    members.push_back({device, make_for_device(world, device, timeout_seconds)});
  }
#ifdef CXTRAIN_WITH_CUDA
  // NCCL's communicators are made with their GPU as the current one; the rank's is its first.
  if (devices[0].is_cuda()) c10::cuda::set_device(devices[0].index());
#endif
  if (members.size() == 1) return std::move(members[0].communicator);
  return std::make_unique<PerDeviceCommunicator>(std::move(members));
}

}  // namespace cxtrain
