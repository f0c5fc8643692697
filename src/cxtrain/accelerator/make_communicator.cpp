#include "cxtrain/accelerator/make_communicator.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/host_communicator.h"
#include "cxtrain/comm/per_device_communicator.h"
#include "cxtrain/comm/solo_communicator.h"
#include "cxtrain/comm/staged_communicator.h"
#include "cxtrain/device/hardware.h"

namespace cxtrain {
namespace {

std::unique_ptr<Communicator> make_host_communicator(World& world, NetworkWay network) {
  auto* mpi = dynamic_cast<MpiWorld*>(&world);
  if (mpi == nullptr) throw CommunicationError("a world of several ranks needs MPI");
  return std::make_unique<HostCommunicator>(*mpi, network);
}

/// The accelerator's own word rather than the plan's: the plan read the driver's list. Ranks tell those of
/// their node, and everybody where nodes are one machine. Collective.
bool devices_are_shared(World& world, std::span<const c10::Device> devices, Accelerator& accelerator) {
  std::vector<std::string> own;
  run_agreed(world, [&] {
    own = transformed(devices, [&](c10::Device device) { return accelerator.uuid(device); });
  });
  const bool shared = gather_machines(world).shared;
  const std::vector<std::vector<std::string>> uuids =
      shared ? gather_values(world, own) : gather_values_on_node(world, own);
  return world.any_rank(ranks_sharing_a_device(uuids).has_value());
}

}  // namespace

std::optional<std::pair<int, int>> ranks_sharing_a_device(std::span<const std::vector<std::string>> uuids) {
  std::map<std::string, int> owner;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    for (const std::string& uuid : uuids[rank]) {
      const int first = owner.emplace(uuid, static_cast<int>(rank)).first->second;
      if (first != static_cast<int>(rank)) return std::pair{first, static_cast<int>(rank)};
    }
  }
  return std::nullopt;
}

std::unique_ptr<Communicator> make_communicator(World& world, std::span<const c10::Device> devices,
                                                Accelerator* accelerator, NetworkWay network) {
  if (world.size() == 1) return std::make_unique<SoloCommunicator>();
  const c10::OptionalDeviceGuard current_stays(devices[0]);
  const bool on_cpu = devices[0].is_cpu();
  if (!on_cpu && accelerator == nullptr)
    throw std::logic_error("there is no accelerator for " + devices[0].str());
  const bool staged = !on_cpu && devices_are_shared(world, devices, *accelerator);
  const auto connect = [&](c10::Device device) -> std::unique_ptr<Communicator> {
    if (on_cpu) return make_host_communicator(world, network);
    if (staged)
      return std::make_unique<StagedCommunicator>(make_host_communicator(world, network), accelerator);
    return accelerator->connect(world, device);
  };
  std::vector<PerDeviceCommunicator::Member> members;
  for (const c10::Device device : devices) {
    if (std::ranges::find(members, device, &PerDeviceCommunicator::Member::device) != members.end()) continue;
    members.push_back({device, connect(device)});
  }
  if (members.size() == 1) return std::move(members[0].communicator);
  return std::make_unique<PerDeviceCommunicator>(std::move(members));
}

}  // namespace cxtrain
