#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/reduce/exchange_times.h"
#include "cxtrain/reduce/rehearsal.h"
#include "cxtrain/report/profile.h"
#include "cxtrain/strategy/gradient_exchange.h"
#include "cxtrain/trainer/profile.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/step_trace.h"

namespace cxtrain {

/// The profiler of a fit: measures the phases of its steps from its construction on.
class StepProfile {
 public:
  /// `session` outlives it. `steps`: of the whole training; 0: unknown.
  StepProfile(Session& session, std::int64_t steps) : session_(session), began_(clock_.now()) {
    if (session.plan().profiler != Profiler::trace) return;
    auto trace = std::make_unique<StepTrace>(steps);
    trace_ = trace.get();
    session.context().hooks.add(std::move(trace));
  }

  /// Ends the measurement. Rank 0 prints the table of all ranks, and writes profile.json where the run has a
  /// folder; a trace is written, too, if it was asked for. `exchange`: of the fit's gradients, to be measured
  /// alone; or null. Collective; called once.
  void report(GradientExchange* exchange) {
    phases_.stop();
    const double seconds = clock_.now() - began_;
    World& world = session_.context().parts.world;
    RankReport own = report_of(phases_, world.facts(), seconds);
    if (exchange != nullptr && world.size() > 1) {
      own.exchange = times_of(*exchange);
      own.profile.connections = exchange->connections();
    }
    std::vector<RankReport> reports = gather_values_on_root(world, own);
    if (trace_ != nullptr) trace_->finish(session_.context().run);
    if (!world.is_root()) return;
    const Profile profile = summary_of(std::move(reports));
    log_info(to_table(profile, !session_.context().parts.device.is_cpu()));
    session_.folder().write("profile.json", to_json(profile));
  }

 private:
  /// A rehearsal, and how long this rank waits for it.
  struct Timed {
    double seconds = 0;
    std::optional<Rehearsal> made = {};
    double last_message() const {
      if (!made) return 0;
      return static_cast<double>(made->last_bytes) / static_cast<double>(made->bytes);
    }
  };
  /// The fastest of three rehearsals. Collective.
  Timed time(GradientExchange& exchange, RehearsedMessages messages) const {
    constexpr int kTimes = 3;
    Timed fastest;
    for (int i = 0; i < kTimes; ++i) {
      session_.context().parts.world.barrier();
      const double begin = clock_.now();
      const std::optional<Rehearsal> made = exchange.rehearse(messages);
      const double seconds = clock_.now() - begin;
      if (!made || made->bytes == 0) return {};
      if (i == 0 || seconds < fastest.seconds) fastest = {seconds, made};
    }
    return fastest;
  }

  ExchangeTimes times_of(GradientExchange& exchange) const {
    const Timed step = time(exchange, RehearsedMessages::of_steps);
    if (!step.made) return {};
    const Timed few = step.made->messages > 1 ? time(exchange, RehearsedMessages::few) : step;
    return {.seconds = step.seconds,
            .bytes = step.made->bytes,
            .messages = step.made->messages,
            .last_message = step.last_message(),
            .waits_for_backward = step.made->waits_for_backward,
            .seconds_in_few = few.seconds,
            .last_of_few = few.last_message()};
  }

  Session& session_;
  StepTrace* trace_ = nullptr;  ///< the session's; null without a trace
  SteadyClock clock_;
  PhaseClock phases_;
  double began_;
};

}  // namespace cxtrain
