#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

/// Makes the communicator that fits this rank's devices: at least one, and an equal number on every rank.
///
/// * One rank: a communicator that sends nothing.
/// * CPUs: MPI on host memory; `network` says how sums travel between nodes.
/// * Every rank has a device of its own: the accelerator's communicator.
/// * Ranks share a device: staged through host memory.
/// * A rank has several devices: one communicator per device.
///
/// Collective. `accelerator` must outlive the communicator; null if all devices are CPUs. Throws
/// CommunicationError.
std::unique_ptr<Communicator> make_communicator(World& world, std::span<const c10::Device> devices,
                                                Accelerator* accelerator,
                                                NetworkWay network = NetworkWay::automatic);

/// Returns the first two ranks that share a device; absent if no ranks do. `uuids[r]`: the UUIDs of rank r's
/// devices.
std::optional<std::pair<int, int>> ranks_sharing_a_device(std::span<const std::vector<std::string>> uuids);

}  // namespace cxtrain
