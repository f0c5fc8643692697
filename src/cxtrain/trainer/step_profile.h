#pragma once

#include <optional>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/trainer/profile.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/step_trace.h"

namespace cxtrain {

/// The profiler of a fit: measures the phases of its steps from its construction on.
class StepProfile {
 public:
  /// `session` outlives it. `steps`: of the whole training; 0: unknown.
  StepProfile(Session& session, std::int64_t steps);

  /// Ends the measurement. Rank 0 prints the table of all ranks, and writes profile.json where the run has a
  /// folder; a trace is written, too, if it was asked for. `exchange`: of the fit's gradients, to be measured
  /// alone; or null. Collective; called once.
  void report(GradientExchange* exchange);

 private:
  /// A rehearsal, and how long this rank waits for it.
  struct Timed {
    double seconds = 0;
    std::optional<Rehearsal> made = {};
    double last_message() const;
  };
  /// The fastest of three rehearsals. Collective.
  Timed time(GradientExchange& exchange, RehearsedMessages messages) const;
  ExchangeTimes times_of(GradientExchange& exchange) const;

  Session& session_;
  StepTrace* trace_ = nullptr;  ///< the session's; null without a trace
  SteadyClock clock_;
  PhaseClock phases_;
  double began_;
};

}  // namespace cxtrain
