#include "cxtrain/trainer/step_profile.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/trainer/profile.h"

namespace cxtrain {

StepProfile::StepProfile(Session& session, std::int64_t steps) : session_(session), began_(clock_.now()) {
  if (session.plan().profiler != Profiler::trace) return;
  auto trace = std::make_unique<StepTrace>(steps);
  trace_ = trace.get();
  session.context().add_callback(std::move(trace));
}

ExchangeTimes StepProfile::times_of(GradientExchange& exchange) const {
  constexpr int kTimes = 3;
  ExchangeTimes times;
  for (int i = 0; i < kTimes; ++i) {
    session_.context().parts.world.barrier();
    const double begin = clock_.now();
    times.bytes = exchange.rehearse();
    if (times.bytes == 0) return {};
    const double seconds = clock_.now() - begin;
    times.seconds = i == 0 ? seconds : std::min(times.seconds, seconds);
  }
  return times;
}

void StepProfile::report(GradientExchange* exchange) {
  phases_.stop();
  const double seconds = clock_.now() - began_;
  World& world = session_.context().parts.world;
  RankReport own = report_of(phases_, world.facts(), seconds);
  if (exchange != nullptr && world.size() > 1) own.exchange = times_of(*exchange);
  std::vector<RankReport> reports;
  for (const std::string& rank : world.gather_root(to_message(own)))
    reports.push_back(from_message<RankReport>(rank));
  if (trace_ != nullptr) trace_->finish(session_.context().run);
  if (!world.is_root()) return;
  const Profile profile = summary_of(std::move(reports));
  log_info(to_table(profile, !session_.context().parts.device.is_cpu()));
  session_.write_file("profile.json", to_json(profile));
}

}  // namespace cxtrain
