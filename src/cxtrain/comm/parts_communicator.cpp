#include "cxtrain/comm/parts_communicator.h"

#include <utility>

#include "cxtrain/base/error.h"

namespace cxtrain {

std::string PartsCommunicator::description() const {
  return parts_[0].communicator->description() + ", for each of " + std::to_string(parts_.size()) +
         " devices a rank";
}

void PartsCommunicator::join() {
  for (Part& part : parts_) part.communicator->join();
}

std::unique_ptr<Communicator> PartsCommunicator::split(int color, int key) {
  std::vector<Part> parts;
  for (Part& part : parts_) parts.push_back({part.device, part.communicator->split(color, key)});
  return color < 0 ? nullptr : std::make_unique<PartsCommunicator>(std::move(parts));
}

Communicator& PartsCommunicator::at(at::Device device) {
  std::string known;
  for (Part& part : parts_) {
    if (part.device == device) return *part.communicator;
    known += (known.empty() ? "" : ", ") + part.device.str();
  }
  throw CommunicationError("a tensor on " + device.str() + " is to travel, but this rank's devices are " +
                           known + "; put the model's parts on part_device(0), part_device(1), ...");
}

}  // namespace cxtrain
