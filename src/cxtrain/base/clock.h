#pragma once

#include <chrono>

namespace cxtrain {

/// The library's source of time. Tests use their own. Used by one thread.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Returns the seconds since a fixed moment; never goes back.
  virtual double now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  double now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

/// Returns the time of day, which may jump. Use it for people, and for files that other programs read. No
/// decision depends on it.
double seconds_since_1970();

/// Returns the seconds since the operating system started this process: the user's waiting time, dynamic
/// loading included. Resolution 10 ms.
double seconds_since_process_start();

}  // namespace cxtrain
