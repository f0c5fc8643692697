#include "cxtrain/comm/per_device_communicator.h"

#include <algorithm>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"

namespace cxtrain {

std::string PerDeviceCommunicator::description() const {
  return members_[0].communicator->description() + ", for each of " + std::to_string(members_.size()) +
         " devices a rank";
}

void PerDeviceCommunicator::join() {
  for (Member& member : members_) member.communicator->join();
}

std::unique_ptr<Communicator> PerDeviceCommunicator::split(int color, int key) {
  std::vector<Member> members;
  for (Member& member : members_) members.push_back({member.device, member.communicator->split(color, key)});
  return color < 0 ? nullptr : std::make_unique<PerDeviceCommunicator>(std::move(members));
}

Communicator& PerDeviceCommunicator::at(at::Device device) {
  const auto own = std::ranges::find(members_, device, &Member::device);
  if (own != members_.end()) return *own->communicator;
  throw CommunicationError("a tensor on " + device.str() + " is to travel, but this rank's devices are " +
                               joined(members_, ", ", [](const Member& each) { return each.device.str(); }) +
                               "; put the model's parts on part_device(0), part_device(1), ...",
                           MessageCode::bad_tensor);
}

}  // namespace cxtrain
