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

}  // namespace cxtrain
