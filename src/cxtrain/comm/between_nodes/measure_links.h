#pragma once

#include <cstddef>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/between_nodes/links.h"

namespace cxtrain {

/// Speeds of messages around the ring of all nodes: each node sends to the next node while it receives from
/// the node before. Bytes a second in each direction.
struct RingSpeeds {
  double links, mpi;
};

/// This node's speeds, in the fastest of several rounds, with messages of `bytes`. Collective over `rail`,
/// whose ranks the links connect.
RingSpeeds measure_ring(Links& links, const MpiComm& rail, std::size_t bytes);

}  // namespace cxtrain
