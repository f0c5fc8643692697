#include "cxtrain/cluster/end_job.h"

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

void end_job(World& world, const std::string& where, ExitCode code, const std::string& message) noexcept {
  const WorldFacts& facts = world.facts();
  log_error("rank " + std::to_string(facts.rank) + " on " + facts.hostname +
            (where.empty() ? "" : ", " + where) + ": " + message);
  if (facts.size > 1) log_detail(world.watchdog().record());
  const int status = static_cast<int>(code);
  world.process_end().report(status);
  world.abort(status);
}

}  // namespace cxtrain
