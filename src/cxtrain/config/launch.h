#pragma once

#include <string>
#include <vector>

#include "cxtrain/config/device_choice.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

/// The launch matrix: strategy, launcher, world size, nodes, devices per rank and replicas, from what
/// was asked, what the strategies are and how the process was started. Sets these fields of the plan;
/// disagreements go to plan.errors, with both numbers and the right command line. Returns the node of each
/// rank.
std::vector<int> choose_launch(const TrainerOptions& trainer, const KnownStrategies& strategies,
                               const DeviceChoice& devices, const Hardware& hardware,
                               const WorldFacts& launched, Plan& plan);

/// Whether the plan wants ranks that nobody has started yet, seen from a process that was started as
/// `launched` says: `start_ranks` (launchers/launcher.h) then starts them.
bool needs_launch(const Plan& plan, const WorldFacts& launched);

}  // namespace cxtrain
