#pragma once

#include <string>
#include <vector>

#include "cxtrain/config/plan.h"

/// Who starts the ranks of a job.
///
/// Under mpirun and srun the ranks are there already. A process that was started alone and plans for several
/// ranks starts them itself, in the way that the plan names (`Plan::launcher`).
namespace cxtrain {

/// What each rank runs.
struct Program {
  std::string path;  ///< absolute
  std::vector<std::string> arguments;
};

/// The program's path and arguments, as a command line has them.
std::vector<std::string> words_of(const Program& program);

/// This process's own program, with these arguments (without the name).
Program this_program(int argc, const char* const* argv);

/// Starts the plan's ranks, each running `program`, as the plan's launcher does. Returns the exit status of
/// the whole job when all ranks have ended. To be called where `needs_launch` (config/plan.h) says so, before
/// this process has started MPI. With `srun` the function does not return: the process becomes srun. Ranks of
/// `spawn` have `timeout_seconds` to start. Throws an Error if ranks cannot be started.
int start_ranks(const Plan& plan, const Program& program, double timeout_seconds);

/// Tells MPI's launchers about `ranks` processes on this node, by environment variables that replace those
/// that are there: the user knows that he is root (he started this program as root), and there may be more
/// ranks than cores. No rank is bound to a core or a socket, unless the environment says how they are to be:
/// Open MPI would give each of two ranks one core, for all its threads.
void prepare_environment(int ranks);

}  // namespace cxtrain
