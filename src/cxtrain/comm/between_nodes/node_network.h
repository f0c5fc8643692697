#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/between_nodes/courier.h"
#include "cxtrain/comm/between_nodes/node_board.h"
#include "cxtrain/comm/between_nodes/tcp_links.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

/// The couriers of a node.
struct NodeNetwork {
  NodeBoard board;
  int couriers;                      ///< ranks of each node that have one: the first ones
  std::int64_t message_bytes;        ///< that suit the links: `Communicator::message_bytes`
  double bytes_per_second;           ///< of the links of one courier, while all couriers send
  bool by_tcp;                       ///< else by MPI
  std::unique_ptr<Courier> courier;  ///< of this rank, or null
  const TcpLinks* tcp_links;         ///< of the courier; null without TCP or courier
};

/// Returns the size of a chunk (`SliceExchange`): the bytes that a link moves in 0.4 ms, because a chunk
/// costs tens of microseconds besides its bytes.
std::size_t chunk_for(double bytes_per_second);
/// Returns the size of a message of gradients: sqrt(n o v), n = 4 MB of gradients, o = 60 us that a message
/// costs besides its bytes, v bytes a second.
std::int64_t message_for(double bytes_per_second);

/// Connects the ranks of `comm` that lie in the same place of their nodes, by TCP or by MPI. `rail`, which
/// outlives the network: the ranks with this rank's place, in the order of the nodes. `spins`: waiting ranks
/// may keep their cores. MPI is taken if `way` asks for MPI, if two nodes do not reach each other by TCP
/// (rank 0 warns), or if MPI is much faster. Absent, on all ranks, if a node cannot share memory. Collective
/// over `comm`.
std::optional<NodeNetwork> open_node_network(const MpiComm& comm, const MpiComm& node_comm,
                                             const MpiComm& rail, NetworkWay way, bool spins);

}  // namespace cxtrain
