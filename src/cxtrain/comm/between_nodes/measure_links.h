#pragma once

#include <cstddef>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/between_nodes/links.h"

namespace cxtrain {

/// The time of a message around the ring of all nodes at once: each node sends to the next node and receives
/// from the node before. Seconds, of the slowest node and the fastest of several rounds.
struct RingTimes {
  double links = 0, mpi = 0;
};

/// Collective over `rail`, whose ranks the links connect.
RingTimes measure_ring(Links& links, const MpiComm& rail, std::size_t bytes);

}  // namespace cxtrain
