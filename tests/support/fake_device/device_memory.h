#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>
#include <vector>

namespace cxtrain::test {

/// The memory of all fake devices: memory of the host that is counted for a device, belongs to the stream
/// that was current when it was allocated, and is full of bytes that make no sensible number. Nothing is kept
/// when it is freed.
class DeviceMemory final : public c10::DeviceAllocator {
 public:
  static DeviceMemory& instance();

  void set_devices(int count);
  void set_capacity(c10::DeviceIndex device, std::size_t bytes);

  /// On the current device.
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DataPtr allocate_on(c10::DeviceIndex device, std::size_t bytes);
  /// Memory that has been written already, by an operation on the device's current stream.
  c10::DataPtr adopt(c10::DeviceIndex device, std::size_t bytes, c10::DataPtr memory);
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override;
  void recordStream(const c10::DataPtr& memory, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  /// Free bytes and all bytes.
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override;

 private:
  struct Device {
    std::size_t capacity = std::size_t{16} << 30;
    c10::CachingDeviceAllocator::DeviceStats stats;
  };
  struct Block;

  Device& at(c10::DeviceIndex device);
  static void free(void* block);

  std::vector<Device> devices_;
};

}  // namespace cxtrain::test
