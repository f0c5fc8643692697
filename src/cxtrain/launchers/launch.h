#pragma once

#include "cxtrain/config/plan.h"
#include "cxtrain/launchers/program.h"

/// Who starts the ranks. Under mpirun and srun they are there already; a process that was started alone and
/// plans for several starts them itself: by becoming `mpirun` (launcher `subprocess`), or as a supervisor of
/// ranks that it spawns through MPI (launcher `spawn`).
namespace cxtrain {

/// Whether the plan wants ranks that nobody has started yet, seen from this process.
bool needs_launch(const Plan& plan, const WorldFacts& facts);

/// Starts the plan's ranks, each running `program`, and returns the exit status of the whole job when all
/// have ended. With `subprocess` this process becomes mpirun and the call does not return. Only in a process
/// that was started alone, before it has started MPI. Ranks of `spawn` have `timeout_seconds` to start. Throws
/// CommunicationError where ranks cannot be started.
int start_ranks(const Plan& plan, const Program& program, double timeout_seconds);

}  // namespace cxtrain
