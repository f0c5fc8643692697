#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// The communicator that fits this rank's devices (at least one; as many on every rank): none for one rank;
/// the accelerator's when every rank has a device of its own; staged through host memory when ranks share
/// one; MPI on host memory on CPUs; one for each device where a rank has several. Collective. `accelerator`
/// outlives it; null where all devices are CPUs. Throws CommunicationError.
std::unique_ptr<Communicator> make_communicator(World& world, std::span<const c10::Device> devices,
                                                Accelerator* accelerator);

/// The first two ranks that share a device, where there are any. `uuids`: of each rank, those of its devices,
/// separated by blanks.
std::optional<std::pair<int, int>> ranks_sharing_a_device(std::span<const std::string> uuids);

}  // namespace cxtrain
