#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cxtrain/base/field_types.h"
#include "cxtrain/base/tick_clock.h"

namespace cxtrain {

/// The phases of a training loop.
enum class Phase : std::uint8_t {
  other,      ///< everything that is in no other phase
  data,       ///< waiting for the loader's next batch, or making it
  transfer,   ///< copying a batch to the device, and converting it
  forward,    ///< training_step
  backward,   ///< autograd, with the communication that overlaps it
  reduce,     ///< waiting for the gradients of the other ranks after backward
  optimizer,  ///< unscaling, clipping, the update
  publish,    ///< bringing updated parameters and buffers to the other ranks
  agree,      ///< the vote of all ranks in each step
  hooks,      ///< of callbacks and the module
  logging,    ///< rows of metrics
  // The two last phases contain the others: a batch that a validation reads counts as validation.
  checkpoint,
  validation,
};
template <>
struct ChoiceOf<Phase> {
  static constexpr std::array<std::string_view, 13> words{
      "other",   "data",  "transfer", "forward", "backward",   "reduce",    "optimizer",
      "publish", "agree", "hooks",    "logging", "checkpoint", "validation"};
};
inline constexpr std::size_t kPhases = ChoiceOf<Phase>::words.size();

/// Whether a rank waits for other ranks in this phase. In all other phases it works.
constexpr bool is_waiting(Phase phase) {
  return phase == Phase::reduce || phase == Phase::agree || phase == Phase::publish;
}

/// Measures how long this process is in each phase. The phase that was entered last runs; the times of the
/// phases do not overlap, and their sum is the time that the clock has run.
///
/// While a PhaseClock lives, the static methods change its phase. They read the processor's time counter
/// once. Without a PhaseClock they only compare a pointer. One thread, the loop's, calls all methods.
class PhaseClock {
 public:
  /// The clock keeps the times of so many single steps, the last ones.
  static constexpr std::size_t kKeptSteps = 65'536;

  /// Begins in Phase::other. The clock that ran before, if any, rests until this one stops.
  PhaseClock();
  ~PhaseClock() { stop(); }
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;

  /// Enters a phase, and returns the phase to go back to. Within `checkpoint` and `validation` the phase
  /// stays.
  static Phase enter(Phase phase) noexcept {
    return running_ == nullptr ? Phase::other : running_->begin(phase);
  }
  /// Goes back to a phase that `enter` has returned.
  static void leave_to(Phase outer) noexcept {
    if (running_ != nullptr) running_->change(outer);
  }
  /// Ends a step, which began at the end of the step before, at the last change of the phase.
  static void end_step() noexcept {
    if (running_ != nullptr) running_->close_step();
  }
  /// `observer` is called with each phase that begins; null: no longer.
  static void observe(void (*observer)(Phase phase)) noexcept { observer_ = observer; }

  /// Ends the measurement; the times stay.
  void stop() noexcept;

  std::int64_t steps() const { return static_cast<std::int64_t>(steps_); }
  /// Seconds in this phase, in steps and after the last one.
  double seconds(Phase phase) const { return clock_.seconds(total_[index(phase)]); }
  /// Seconds of this phase in each of the kept steps, in no order.
  std::vector<double> step_seconds(Phase phase) const;
  /// Seconds of each of the kept steps, in no order.
  std::vector<double> step_seconds() const;
  /// Seconds of work (`is_waiting`) in each of the kept steps, at most of `most` of them. Ranks that have
  /// made as many steps return them in the same order.
  std::vector<double> work_seconds(std::size_t most) const;

 private:
  using Ticks = TickClock::Ticks;
  using Row = std::array<float, kPhases>;  ///< ticks of a step in each phase

  static std::size_t index(Phase phase) { return static_cast<std::size_t>(phase); }
  Phase begin(Phase phase) noexcept;
  void change(Phase phase) noexcept;
  void close_step() noexcept;
  void count() noexcept;

  static PhaseClock* running_;
  static void (*observer_)(Phase);

  TickClock clock_;
  PhaseClock* outer_;
  bool stopped_ = false;
  Phase phase_ = Phase::other;
  Ticks since_ = 0;  ///< ticks that have been counted
  std::array<Ticks, kPhases> of_step_{}, total_{};
  std::size_t steps_ = 0;
  std::vector<Row> rows_;  ///< of the kept steps
};

/// Is in a phase while it lives.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase) noexcept : outer_(PhaseClock::enter(phase)) {}
  ~PhaseScope() { PhaseClock::leave_to(outer_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phase outer_;
};

}  // namespace cxtrain
