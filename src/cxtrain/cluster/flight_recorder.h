#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cxtrain {

/// What this rank has done with other ranks last: its waits for them, in order. It is read when a job ends
/// for want of a rank.
///
/// Waits that all ranks of a node go through are numbered, alike on all of them as long as they go the same
/// way through the program: of two ranks the one with the smaller number is behind. One thread writes, and
/// any may read; what is being written while it is read may come out mixed with what it replaces.
class FlightRecorder {
 public:
  static constexpr std::size_t kKept = 64;

  struct Entry {
    std::uint64_t number = 0;         ///< of the last wait that counts, this one among them
    const char* operation = nullptr;  ///< a literal
    std::int64_t step = -1;           ///< optimizer steps done by then; -1: there was no training yet
    double seconds = 0;               ///< that it has taken
    bool goes_on = false;
  };

  FlightRecorder();

  /// A wait begins, and ends. `counts`: every rank of the node goes through it. Each reads the processor's
  /// counter of time and writes a few words of memory (tests/cluster/flight_recorder_test.cpp measures it).
  void begin(const char* operation, bool counts) noexcept;
  void end() noexcept;

  /// How many waits that count have begun.
  std::uint64_t number() const noexcept { return number_.load(std::memory_order_relaxed); }

  /// Time as the processor counts it, since the recorder was made: `seconds` tells what that is.
  using Ticks = std::uint64_t;
  /// What waits have taken that have ended, all of them together.
  Ticks waited() const noexcept { return waited_.load(std::memory_order_relaxed); }
  /// When the last one ended; 0: none has.
  Ticks last_end() const noexcept { return last_end_.load(std::memory_order_relaxed); }
  double seconds(Ticks ticks) const;

  /// The newest first.
  std::vector<Entry> entries() const;
  /// The same as a table, for a log.
  std::string text() const;

 private:
  struct Slot {
    std::atomic<const char*> operation{nullptr};
    std::atomic<std::uint64_t> number{0};
    std::atomic<std::int64_t> step{-1};
    std::atomic<Ticks> begin{0}, end{0};  ///< `end` 0: it goes on
  };

  Ticks now() const noexcept;

  Ticks first_tick_;
  std::chrono::steady_clock::time_point first_;
  std::atomic<std::uint64_t> begun_{0}, number_{0};
  std::atomic<Ticks> waited_{0}, last_end_{0};
  std::array<Slot, kKept> slots_;
};

}  // namespace cxtrain
