#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace cxtrain::test {

/// Current device, streams and events of fake devices, as LibTorch asks for them. Current are a device and,
/// on each device, a stream, for every thread by itself. A device has a default stream (id 0) and, like
/// CUDA's, 32 streams of normal and 32 of high priority, which are handed out in turn.
class FakeGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  static FakeGuard& instance();
  void set_devices(int count) { count_ = static_cast<c10::DeviceIndex>(count); }

  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::DeviceIndex deviceCount() const noexcept override { return count_; }
  c10::Device exchangeDevice(c10::Device device) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device device) const override;
  void uncheckedSetDevice(c10::Device device) const noexcept override;
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override;

  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority = false) const override;
  c10::Stream getNewStream(c10::Device device, int priority = 0) const override;
  c10::Stream exchangeStream(c10::Stream stream) const override;
  void* getStreamNativeHandle(c10::Stream stream) const override;
  bool queryStream(const c10::Stream& stream) const override;
  void synchronizeStream(const c10::Stream& stream) const override;
  void synchronizeDevice(c10::DeviceIndex device) const override;
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override;

  void destroyEvent(void* event, c10::DeviceIndex device) const noexcept override;
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex device,
              c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  double elapsedTime(void* begin, void* end, c10::DeviceIndex device) const override;

 private:
  c10::Device checked(c10::Device device) const;

  c10::DeviceIndex count_ = 0;
};

}  // namespace cxtrain::test
