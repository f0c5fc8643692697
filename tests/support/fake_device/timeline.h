#pragma once

#include <c10/core/Stream.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "support/fake_device/vector_clock.h"

namespace cxtrain::test {

/// One thing that a stream was told to do.
struct Operation {
  std::string name;
  c10::Stream stream;
  std::size_t stream_index = 0;  ///< in vector clocks
  std::uint64_t number = 0;      ///< among those of its stream
};

/// "add.out on fake:0, stream 3".
std::string to_text(const Operation& operation);

/// A stream of a fake device: a place in vector clocks, and what came before its next operation.
struct FakeStream {
  c10::Stream stream;
  std::size_t index;
  VectorClock clock;
  /// The first operation that may not end before the stream is released; 0: none, it is not held.
  std::uint64_t held_from = 0;
};

/// The one lock of the fake devices. Whoever calls a member of Timeline, OrderChecker or LateCopies has it.
std::recursive_mutex& fake_mutex();
using FakeLock = std::unique_lock<std::recursive_mutex>;

/// In what order streams and host did what they did. Operations run when they are launched, on the host; an
/// order between them is there only where streams, events or the host have made it.
class Timeline {
 public:
  static Timeline& instance();

  /// The stream's state, which stays where it is for good.
  FakeStream& at(const c10::Stream& stream);
  /// The stream whose native handle this is. Throws where there is none.
  FakeStream& by_handle(const void* handle);
  /// The stream's next operation. What the host knows of has come before it.
  Operation launch(std::string name, FakeStream& stream);

  VectorClock& host() { return host_; }
  /// Of this device.
  VectorClock all_streams(c10::DeviceIndex device) const;
  /// Whether no held stream keeps what the clock knows of from having ended.
  bool finished(const VectorClock& clock) const;
  /// Waits until it has. Throws after `wait_limit_seconds`.
  void wait(FakeLock& lock, const VectorClock& clock, const std::string& what);

  void hold(FakeStream& stream);
  void release(FakeStream& stream);
  void release_all();

  double wait_limit_seconds = 20;

 private:
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::unique_ptr<FakeStream>> streams_;
  VectorClock host_;
  std::condition_variable_any released_;
};

}  // namespace cxtrain::test
