#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "support/fake_device/order_checker.h"

namespace cxtrain::test {

/// Copies between devices and pinned memory that the host did not wait for. One to the host changes the
/// host's bytes only when the host has learned that it ended; one from the host reads them at the latest
/// moment that there is: when the device's bytes are needed. A host that changes either side's bytes in
/// pinned memory before it has learned of the end is recorded as a race.
class LateCopies {
 public:
  static LateCopies& instance();

  /// Both sides are `bytes` long. `pinned`: keeps the host's memory. The operation has been noted by the
  /// OrderChecker, for both sides.
  void to_host(const Operation& operation, const VectorClock& clock, void* host, const void* device,
               std::size_t bytes, std::shared_ptr<const void> pinned);
  void to_device(const Operation& operation, const VectorClock& clock, void* device, const void* host,
                 std::size_t bytes, std::shared_ptr<const void> pinned);

  /// Somebody is about to use these bytes of a device.
  void need(const ByteSet& device_bytes);
  /// The host has learned of the ends of more copies.
  void end_known();
  /// Records copies whose pinned memory the host has changed already.
  void check_sources();

 private:
  struct Copy {
    Operation operation;
    VectorClock clock;
    bool to_device;
    void* to;
    const void* from;
    /// To the host: what to write. To the device: what pinned memory held at the launch.
    std::vector<std::byte> data;
    std::vector<std::byte> before;  ///< to the host: what it held at the launch
    std::shared_ptr<const void> pinned;
    bool read = false;      ///< to the device: it has been read
    bool reported = false;  ///< as a race
  };

  /// Pinned memory as an operation with this clock has to find it.
  std::vector<std::byte> pinned_bytes(const void* host, std::size_t bytes, const VectorClock& clock) const;
  void read(Copy& copy);
  void compare(Copy& copy, const std::vector<std::byte>& expected, const std::vector<std::byte>& found,
               const char* what);

  std::deque<Copy> copies_;  // in the order of their launches
};

}  // namespace cxtrain::test
