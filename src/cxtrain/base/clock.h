#pragma once

#include <chrono>
#include <string>

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

/// Returns a time, in seconds since 1970, as strftime(3) writes it, in local time or in UTC; empty if the
/// time has no date.
std::string date_text(double time, const char* format, bool utc = false);

/// Returns the seconds since the operating system started this process: the user's waiting time, dynamic
/// loading included. Resolution 10 ms.
double seconds_since_process_start();

}  // namespace cxtrain
