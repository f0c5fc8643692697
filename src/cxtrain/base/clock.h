#pragma once

#include <chrono>

namespace cxtrain {

/// Time as the library sees it; tests put their own in its place. Used by one thread.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since some fixed moment; never goes back.
  virtual double now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  double now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

/// The time of day, which may jump: for people and for files that others read; nothing is decided by it.
double seconds_since_1970();

/// Seconds since the operating system started this process: what a user waits, dynamic loading included.
/// Resolution 10 ms.
double seconds_since_process_start();

}  // namespace cxtrain
