#include "cxtrain/trainer/step_profile.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/trainer/profile.h"

namespace cxtrain {

StepProfile::StepProfile(Session& session, std::int64_t steps) : session_(session), began_(clock_.now()) {
  if (session.plan().profiler != Profiler::trace) return;
  auto trace = std::make_unique<StepTrace>(steps);
  trace_ = trace.get();
  session.context().hooks.add(std::move(trace));
}

double StepProfile::Timed::last_message() const {
  if (!made) return 0;
  return static_cast<double>(made->last_bytes) / static_cast<double>(made->bytes);
}

StepProfile::Timed StepProfile::time(GradientExchange& exchange, RehearsedMessages messages) const {
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

ExchangeTimes StepProfile::times_of(GradientExchange& exchange) const {
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

void StepProfile::report(GradientExchange* exchange) {
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

}  // namespace cxtrain
