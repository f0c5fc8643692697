#pragma once

#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "launchers/restarts.h"

/// `--max_restarts` on the command line: which process starts the job again, and how.
namespace cxtrain {

/// Whether this process, started as `launched` says, is the one that starts the job again when it fails.
bool restarts_job(const Options& options, const WorldFacts& launched);

/// Appends a problem where nobody can start the job again, because a launcher outside of this program has
/// started it, and where a rank cannot be left out, because there are several nodes.
void check_restarts(const Options& options, const Plan& plan, const WorldFacts& launched,
                    std::vector<Problem>& problems);

/// How this program's job is started again: with the arguments that it was given, followed by those that have
/// it go on from a checkpoint, and on the devices that are left. The arguments outlive it.
RestartPlan make_restart_plan(const Options& options, const Plan& plan, const Program& program,
                              Filesystem& files);

}  // namespace cxtrain
