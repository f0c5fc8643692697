#include "cxtrain/comm/make_communicator.h"

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/host_communicator.h"
#include "cxtrain/comm/solo_communicator.h"

namespace cxtrain {

std::unique_ptr<Communicator> make_communicator(World& world, const Plan& plan, c10::Device device,
                                                double timeout_seconds) {
  if (world.size() == 1) return std::make_unique<SoloCommunicator>();
  const auto* mpi = dynamic_cast<const MpiWorld*>(&world);
  if (mpi == nullptr) throw CommunicationError("a world of several ranks needs MPI");
  auto host = std::make_unique<HostCommunicator>(mpi->comm(), mpi->node_comm(), timeout_seconds);
  static_cast<void>(plan);
  static_cast<void>(device);
  return host;
}

}  // namespace cxtrain
