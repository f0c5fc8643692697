#pragma once

#include <atomic>
#include <cstdint>

namespace cxtrain {

/// Lets threads of several processes sleep until another thread has changed memory that they share. Lies in
/// zeroed shared memory.
class Doorbell {
 public:
  /// Wakes all sleepers. Called after a change of the memory.
  void ring() noexcept;
  /// Returns when `condition()` holds: looks at first, after each ring, and every `milliseconds` (-1: after
  /// rings only). The condition reads memory with std::memory_order_seq_cst or acquire.
  template <class Condition>
  void sleep_until(const Condition& condition, int milliseconds = -1) {
    // Either who rings sees that somebody may sleep, or the sleeper sees the change. Who falls asleep is
    // woken, or finds that the number of rings has changed, and stays awake.
    sleepers_.fetch_add(1);
    for (;;) {
      const std::uint32_t rings = rings_.load();
      if (condition()) break;
      sleep(rings, milliseconds);
    }
    sleepers_.fetch_sub(1);
  }

 private:
  /// Sleeps until the number of rings is no longer `rings`; may return earlier.
  void sleep(std::uint32_t rings, int milliseconds) const noexcept;

  std::atomic<std::uint32_t> rings_, sleepers_;
};

}  // namespace cxtrain
