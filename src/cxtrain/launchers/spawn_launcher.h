#pragma once

#include "cxtrain/launchers/program.h"

namespace cxtrain {

/// Starts `ranks` ranks of the program on this node with MPI_Comm_spawn, and watches over them: forwards
/// signals, and returns the job's exit status once all have ended. Their output comes out here. This process
/// trains nothing. Throws CommunicationError when MPI cannot start them.
int spawn_ranks(int ranks, const Program& program);

}  // namespace cxtrain
