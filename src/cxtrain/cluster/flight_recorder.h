#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/base/tick_clock.h"

namespace cxtrain {

/// This rank's last waits for other ranks, in order. It is read when a job ends because a rank is missing.
///
/// Waits of all ranks of a node have numbers. The numbers are equal on all ranks as long as the ranks take
/// the same path through the program. If two ranks differ, the rank with the smaller number is behind. One
/// thread writes, and any thread may read. An entry that is written while it is read may mix new and old
/// values.
class FlightRecorder {
 public:
  static constexpr std::size_t kKept = 64;

  struct Entry {
    std::uint64_t number = 0;         ///< number of the last counted wait, up to this wait
    const char* operation = nullptr;  ///< a literal
    std::int64_t step = -1;           ///< optimizer steps done by then; -1: before training
    double seconds = 0;               ///< duration so far
    bool goes_on = false;
  };

  /// Marks the begin and the end of a wait. `counts`: every rank of the node takes part in the wait. Each
  /// call reads the processor's time counter and writes a few words of memory
  /// (tests/cluster/flight_recorder_test.cpp measures it).
  void begin(const char* operation, bool counts) noexcept;
  void end() noexcept;

  /// Number of counted waits that have begun.
  std::uint64_t number() const noexcept { return number_.load(std::memory_order_relaxed); }

  /// Time in ticks of the processor's counter since the recorder was made. `seconds` converts ticks.
  using Ticks = TickClock::Ticks;
  /// Total time of all waits that have ended.
  Ticks waited() const noexcept { return waited_.load(std::memory_order_relaxed); }
  /// End of the last wait; 0: no wait has ended.
  Ticks last_end() const noexcept { return last_end_.load(std::memory_order_relaxed); }
  double seconds(Ticks ticks) const { return clock_.seconds(ticks); }

  /// Returns the entries, the newest first.
  std::vector<Entry> entries() const;
  /// Returns the entries as a table, for a log.
  std::string text() const;

 private:
  struct Slot {
    std::atomic<const char*> operation{nullptr};
    std::atomic<std::uint64_t> number{0};
    std::atomic<std::int64_t> step{-1};
    std::atomic<Ticks> begin{0}, end{0};  ///< `end` is 0 during the wait
  };

  TickClock clock_;
  std::atomic<std::uint64_t> begun_{0}, number_{0};
  std::atomic<Ticks> waited_{0}, last_end_{0};
  std::array<Slot, kKept> slots_;
};

}  // namespace cxtrain
