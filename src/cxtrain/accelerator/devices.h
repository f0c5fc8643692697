#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <span>

namespace cxtrain {

/// The stream that this thread's work on the device goes to.
inline c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// Waits until the devices have done all that they were told: before a clock is read, whose time would
/// otherwise be that of the telling. CPUs have done it already.
void synchronize(std::span<const c10::Device> devices);

/// The most memory that tensors on these devices have taken at once, in bytes, over the devices; 0 on CPUs.
/// Without what CUDA, its libraries and NCCL take for themselves.
std::int64_t peak_device_bytes(std::span<const c10::Device> devices);

}  // namespace cxtrain
