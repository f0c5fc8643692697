#include "cxtrain/comm/per_device_communicator.h"

#include <utility>

#include "cxtrain/base/error.h"

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
  std::string known;
  for (Member& member : members_) {
    if (member.device == device) return *member.communicator;
    known += (known.empty() ? "" : ", ") + member.device.str();
  }
  throw CommunicationError("a tensor on " + device.str() + " is to travel, but this rank's devices are " +
                               known + "; put the model's parts on part_device(0), part_device(1), ...",
                           MessageCode::bad_tensor);
}

}  // namespace cxtrain
