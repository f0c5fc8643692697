#pragma once

#include <chrono>
#include <cstdint>

namespace cxtrain {

/// Time in ticks of the processor's time counter, since the clock was made. To read the counter costs a third
/// of the time to read the system's clock. Any thread may read a TickClock.
class TickClock {
 public:
  using Ticks = std::uint64_t;

  TickClock() : first_tick_(counter()), first_(std::chrono::steady_clock::now()) {}

  /// Never 0, and never before the clock was made, whatever another core's counter says.
  Ticks now() const noexcept {
    const Ticks tick = counter();
    return tick > first_tick_ ? tick - first_tick_ : 1;
  }
  double seconds(Ticks ticks) const { return static_cast<double>(ticks) * seconds_of_a_tick(); }
  /// Follows from the ticks since the clock was made.
  double seconds_of_a_tick() const {
    const std::chrono::duration<double> so_far = std::chrono::steady_clock::now() - first_;
    return so_far.count() / static_cast<double>(now());
  }

 private:
  static Ticks counter() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return static_cast<Ticks>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }

  Ticks first_tick_;
  std::chrono::steady_clock::time_point first_;
};

}  // namespace cxtrain
