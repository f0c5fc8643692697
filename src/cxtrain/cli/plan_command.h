#pragma once

#include <iosfwd>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

/// What `cxtrain_mpi plan` would do with these options: for the hardware of the file or of this machine, and
/// for the ranks of --ranks, --ranks-per-node, else as if started alone. Needs no GPU and no MPI. Unreadable
/// files and impossible numbers of ranks are in Plan::errors. `strategies`: see `resolve`.
Plan make_plan(const Options& options, const KnownStrategies& strategies);

/// Prints that plan, as a table or with --json as JSON. `problems`: what was refused before it came to a plan
/// (options, files, components); they become errors of the plan, with JSON, and are thrown together with its
/// own as a ConfigError otherwise. Returns the exit status: 0, or 2 when the plan has errors.
int run_plan(const Options& options, std::ostream& out, const KnownStrategies& strategies,
             const std::vector<Problem>& problems = {});

}  // namespace cxtrain
