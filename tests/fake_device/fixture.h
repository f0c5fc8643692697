#pragma once

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <string>
#include <vector>

#include "support/catch.h"
#include "support/fake_device/fake_device.h"

namespace cxtrain::test {

/// As many as any test of a process has: the first call of `use_fake_devices` decides.
inline constexpr int kFakeDevices = 4;

/// Floats on the first fake device.
inline at::TensorOptions on_first_device() { return at::device(fake_device(0)).dtype(at::kFloat); }

/// Fake devices, idle and without a race at a case's beginning. What races a case has not expected and
/// forgotten fail it.
class TwoFakeDevices {
 public:
  TwoFakeDevices() {
    wait_for_all();
    forget_fake_races();
  }
  ~TwoFakeDevices() {
    CHECK(fake_races() == std::vector<std::string>{});
    wait_for_all();
    forget_fake_races();
  }

  /// Makes later work of one stream wait for what another was told.
  static void wait(const c10::Stream& later, const c10::Stream& earlier) {
    c10::Event event(c10::DeviceType::PrivateUse1);
    event.record(earlier);
    event.block(later);
  }
  c10::Stream side_stream() const { return impl.getStreamFromGlobalPool(device); }
  void wait_for_all() const {
    for (c10::DeviceIndex i = 0; i < kFakeDevices; ++i) impl.synchronizeDevice(i);
  }

 private:
  int registered_ = (use_fake_devices(kFakeDevices), kFakeDevices);

 public:
  c10::impl::VirtualGuardImpl impl{c10::DeviceType::PrivateUse1};
  const c10::Device device = fake_device(0);
  const c10::Stream main = impl.getStream(device);
};

}  // namespace cxtrain::test
