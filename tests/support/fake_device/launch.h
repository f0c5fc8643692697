#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "support/fake_device/order_checker.h"

namespace cxtrain::test {

/// An operation that a stream has been told: from here on its accesses count. Throws FakeDeviceRace where one
/// comes too early; then nothing has been launched.
class Launch {
 public:
  /// On the device's current stream.
  Launch(std::string name, c10::Device device, const std::vector<Access>& accesses);
  Launch(std::string name, FakeStream& stream, const std::vector<Access>& accesses);

  const Operation& operation() const { return operation_; }
  FakeStream& stream() const { return stream_; }
  /// Notes memory that the operation itself has made.
  void made(const at::Tensor& result) const;
  /// The host waits for the end.
  void wait(const std::string& name) const;

 private:
  FakeStream& stream_;
  Operation operation_;
};

/// The stream that is current on this device.
FakeStream& current_stream(c10::Device device);

}  // namespace cxtrain::test
