#include "cxtrain/accelerator/devices.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace cxtrain {

void synchronize(std::span<const c10::Device> devices) {
  for (const c10::Device device : devices) {
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }
}

std::int64_t peak_device_bytes(std::span<const c10::Device> devices) {
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  std::int64_t bytes = 0;
  for (const c10::Device device : devices) {
    if (device.is_cpu()) continue;
    bytes +=
        c10::getDeviceAllocator(device.type())->getDeviceStats(device.index()).allocated_bytes[kAll].peak;
  }
  return bytes;
}

}  // namespace cxtrain
