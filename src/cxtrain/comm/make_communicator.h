#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

/// The communicator that fits the plan: none for one rank; NCCL when every rank has a GPU of its own; staged
/// through host memory when ranks share one; MPI on host memory on CPUs. Collective. Throws
/// CommunicationError.
std::unique_ptr<Communicator> make_communicator(World& world, const Plan& plan, c10::Device device,
                                                double timeout_seconds);

}  // namespace cxtrain
