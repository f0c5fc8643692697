#include "cxtrain/accelerator/make_communicator.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/host_communicator.h"
#include "cxtrain/comm/per_device_communicator.h"
#include "cxtrain/comm/solo_communicator.h"
#include "cxtrain/comm/staged_communicator.h"

namespace cxtrain {
namespace {

std::unique_ptr<Communicator> make_host_communicator(World& world) {
  auto* mpi = dynamic_cast<MpiWorld*>(&world);
  if (mpi == nullptr) throw CommunicationError("a world of several ranks needs MPI");
  return std::make_unique<HostCommunicator>(*mpi);
}

std::unique_ptr<Communicator> make_for_device(World& world, c10::Device device, Accelerator* accelerator) {
  if (device.is_cpu()) return make_host_communicator(world);
  if (accelerator == nullptr) throw std::logic_error("there is no accelerator for " + device.str());
  // The accelerator's own word rather than the plan's: the plan read the driver's list.
  const std::vector<std::string> uuids = gather_agreed(world, [&] { return accelerator->uuid(device); });
  if (!ranks_sharing_a_device(uuids)) return accelerator->connect(world, device);
  return std::make_unique<StagedCommunicator>(make_host_communicator(world), accelerator);
}

}  // namespace

std::optional<std::pair<int, int>> ranks_sharing_a_device(std::span<const std::string> uuids) {
  std::map<std::string, int> owner;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    const auto [entry, is_new] = owner.emplace(uuids[rank], static_cast<int>(rank));
    if (!is_new) return std::pair{entry->second, static_cast<int>(rank)};
  }
  return std::nullopt;
}

std::unique_ptr<Communicator> make_communicator(World& world, std::span<const c10::Device> devices,
                                                Accelerator* accelerator) {
  if (world.size() == 1) return std::make_unique<SoloCommunicator>();
  const c10::OptionalDeviceGuard current_stays(devices[0]);
  std::vector<PerDeviceCommunicator::Member> members;
  for (const c10::Device device : devices) {
    const auto same = [&](const auto& member) { return member.device == device; };
    if (std::any_of(members.begin(), members.end(), same)) continue;
    members.push_back({device, make_for_device(world, device, accelerator)});
  }
  if (members.size() == 1) return std::move(members[0].communicator);
  return std::make_unique<PerDeviceCommunicator>(std::move(members));
}

}  // namespace cxtrain
