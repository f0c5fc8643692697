#include "cxtrain/trainer/step_profile.h"

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

void StepProfile::report() {
  phases_.stop();
  const double seconds = clock_.now() - began_;
  World& world = session_.context().parts.world;
  std::vector<RankReport> reports;
  for (const std::string& rank : world.gather_root(to_message(report_of(phases_, world.facts(), seconds))))
    reports.push_back(from_message<RankReport>(rank));
  if (trace_ != nullptr) trace_->finish(session_.context().run);
  if (!world.is_root()) return;
  const Profile profile = summary_of(std::move(reports));
  log_info(to_table(profile, !session_.context().parts.device.is_cpu()));
  session_.write_file("profile.json", to_json(profile));
}

}  // namespace cxtrain
