#include "cxtrain/launchers/launch.h"

#include "cxtrain/launchers/mpirun_launcher.h"
#include "cxtrain/launchers/spawn_launcher.h"

namespace cxtrain {

bool needs_launch(const Plan& plan, const WorldFacts& facts) {
  return facts.launched_by == LaunchedBy::alone && plan.launcher != "none";
}

int start_ranks(const Plan& plan, const Program& program, double timeout_seconds) {
  if (plan.launcher == "spawn") return spawn_ranks(plan.world_size, program, timeout_seconds);
  become_mpirun(plan.world_size, program);
}

}  // namespace cxtrain
