#include "cxtrain/comm/make_communicator.h"

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/host_communicator.h"
#include "cxtrain/comm/solo_communicator.h"
#include "cxtrain/comm/staged_communicator.h"

#ifdef CXTRAIN_WITH_CUDA
#include "cxtrain/comm/nccl_communicator.h"
#endif

namespace cxtrain {
namespace {

std::unique_ptr<Communicator> make_host_communicator(World& world, double timeout_seconds) {
  auto* mpi = dynamic_cast<MpiWorld*>(&world);
  if (mpi == nullptr) throw CommunicationError("a world of several ranks needs MPI");
  return std::make_unique<HostCommunicator>(*mpi, timeout_seconds);
}

std::unique_ptr<Communicator> make_gpu_communicator(World& world, c10::Device device,
                                                    double timeout_seconds) {
#ifdef CXTRAIN_WITH_CUDA
  // CUDA's own word rather than the plan's: the plan read the driver's list, and what counts is what NCCL
  // will see.
  const std::vector<std::string> uuids = world.all_gather(gpu_uuid(device));
  if (!ranks_sharing_a_gpu(uuids)) return std::make_unique<NcclCommunicator>(world, device, timeout_seconds);
  return std::make_unique<StagedCommunicator>(make_host_communicator(world, timeout_seconds));
#else
  static_cast<void>(timeout_seconds);
  throw CommunicationError(
      "rank " + std::to_string(world.rank()) + " is to train on " + device.str() +
      ", but this cxtrain was built without CUDA; use --accelerator cpu, or configure it with "
      "-DCXTRAIN_CUDA=ON where the CUDA toolkit and NCCL are installed");
#endif
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(World& world, const Plan& plan, c10::Device device,
                                                double timeout_seconds) {
  static_cast<void>(plan);
  if (world.size() == 1) return std::make_unique<SoloCommunicator>();
  if (device.is_cuda()) return make_gpu_communicator(world, device, timeout_seconds);
  return make_host_communicator(world, timeout_seconds);
}

}  // namespace cxtrain
