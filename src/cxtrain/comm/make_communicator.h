#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <span>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// The communicator that fits this rank's devices (at least one; as many on every rank): none for one rank;
/// NCCL when every rank has a GPU of its own; staged through host memory when ranks share one; MPI on host
/// memory on CPUs; one for each device where a rank has several. Collective. Throws CommunicationError.
std::unique_ptr<Communicator> make_communicator(World& world, std::span<const c10::Device> devices,
                                                double timeout_seconds);

}  // namespace cxtrain
