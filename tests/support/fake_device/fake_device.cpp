#include "support/fake_device/fake_device.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>

#include "support/fake_device/device_memory.h"
#include "support/fake_device/generator.h"
#include "support/fake_device/guard.h"
#include "support/fake_device/late_copies.h"
#include "support/fake_device/pinned_memory.h"

namespace cxtrain::test {

void resize_storage(const c10::Storage& storage, std::size_t bytes);

namespace {

/// What LibTorch asks of an accelerator beside devices, streams and memory.
struct FakeHooks final : at::PrivateUse1HooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return guard().deviceCount(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { guard().setDevice(fake_device(device)); }
  c10::DeviceIndex getCurrentDevice() const override { return guard().getDevice().index(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return guard().exchangeDevice(fake_device(device)).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<FakeGenerator>(device < 0 ? getCurrentDevice() : device);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedMemory::instance(); }
  bool isPinnedPtr(const void* data) const override {
    return PinnedMemory::instance().block_of(data) != nullptr;
  }
  c10::Device getDeviceFromPtr(void* data) const override {
    const FakeLock lock(fake_mutex());
    const FakeStream* const owner = OrderChecker::instance().owner(ByteSet::interval(data, 1));
    TORCH_CHECK(owner != nullptr, "this is no memory of a fake device");
    return owner->stream.device();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    resize_storage(storage, bytes);
  }

  static FakeGuard& guard() { return FakeGuard::instance(); }
};

}  // namespace

void use_fake_devices(int count) {
  static const int devices = [count] {
    if (count < 1 || count > 16) throw std::invalid_argument("between 1 and 16 fake devices");
    DeviceMemory::instance().set_devices(count);
    FakeGuard::instance().set_devices(count);
    c10::register_privateuse1_backend("fake");
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &DeviceMemory::instance());
    c10::impl::registerDeviceGuard(c10::DeviceType::PrivateUse1, &FakeGuard::instance());
    at::RegisterPrivateUse1HooksInterface(new FakeHooks);
    return count;
  }();
  if (count > devices)
    throw std::invalid_argument("the process has " + std::to_string(devices) + " fake devices already");
}

c10::Device fake_device(int index) {
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

std::vector<std::string> fake_races() {
  const FakeLock lock(fake_mutex());
  LateCopies::instance().check_sources();
  return OrderChecker::instance().races();
}

void forget_fake_races() {
  const FakeLock lock(fake_mutex());
  LateCopies::instance().check_sources();
  OrderChecker::instance().forget_races();
}

void hold(const c10::Stream& stream) {
  const FakeLock lock(fake_mutex());
  Timeline::instance().hold(Timeline::instance().at(stream));
}

void release(const c10::Stream& stream) {
  const FakeLock lock(fake_mutex());
  Timeline::instance().release(Timeline::instance().at(stream));
}

void set_fake_wait_limit(double seconds) {
  const FakeLock lock(fake_mutex());
  Timeline::instance().wait_limit_seconds = seconds;
}

void set_fake_capacity(c10::Device device, std::size_t bytes) {
  const FakeLock lock(fake_mutex());
  DeviceMemory::instance().set_capacity(device.index(), bytes);
}

std::size_t fake_allocated_bytes(c10::Device device) {
  return static_cast<std::size_t>(
      DeviceMemory::instance().getDeviceStats(device.index()).allocated_bytes[0].current);
}

}  // namespace cxtrain::test
