#pragma once

#include "launchers/launcher.h"

namespace cxtrain {

/// Starts `ranks` ranks of the program on this node with MPI_Comm_spawn, and watches over them: forwards
/// signals, and returns the job's exit status once all have ended. Their output comes out here. This process
/// trains nothing; a child of it talks to MPI, since a call of MPI's that waits for a rank that has died on
/// its way up never returns. Ranks that have not started within `timeout_seconds`, or a minute, end the job.
/// Throws CommunicationError when this process cannot watch.
int spawn_ranks(int ranks, const Program& program, double timeout_seconds);

}  // namespace cxtrain
