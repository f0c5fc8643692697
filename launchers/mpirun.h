#pragma once

#include <string>
#include <vector>

#include "launchers/launcher.h"

namespace cxtrain {

/// The command line that starts `ranks` ranks of the program: on this node, or `per_node` (0: on this node)
/// on each of those that mpirun finds in its environment.
std::vector<std::string> mpirun_command(int ranks, int per_node, const Program& program);

/// Replaces this process by mpirun: signals, output and exit status are then its own. Throws
/// CommunicationError when there is no mpirun in $PATH, or when this process was started by one that did not
/// tell it (that of another MPI).
[[noreturn]] void become_mpirun(int ranks, int per_node, const Program& program);

/// Starts ranks on this node by an mpirun of this process, and returns its exit status. Signals go to the
/// ranks themselves once all of them run: mpirun would answer SIGTERM and SIGINT by SIGKILL to its ranks a
/// second later, and by a status of its own. Who asks the ranks to end for the third time has all killed.
/// Make no threads before: they would get the signals. Throws as `become_mpirun` does.
int run_mpirun(int ranks, const Program& program);

}  // namespace cxtrain
