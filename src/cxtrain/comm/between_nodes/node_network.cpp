#include "cxtrain/comm/between_nodes/node_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/log.h"
#include "cxtrain/comm/between_nodes/measure_links.h"
#include "cxtrain/comm/between_nodes/tcp_links.h"

namespace cxtrain {
namespace {

constexpr RingSpeeds kNoLimit{std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::infinity()};

/// Whether sums over nodes are faster by MPI, after backward, than by the links, beside backward: a cluster
/// may have a fabric that only MPI knows, and a slow network beside it.
bool mpi_is_much_faster(const RingSpeeds& speeds) {
  constexpr double kHiddenByBackward = 5e9 / 8;  // bytes a second
  return speeds.links < kHiddenByBackward && speeds.mpi > 3 * speeds.links;
}

/// The bytes that a link moves in 0.4 ms: a chunk costs tens of microseconds besides its bytes.
std::size_t chunk_for(double bytes_per_second) {
  const double bytes = std::clamp(0.4e-3 * bytes_per_second, 64e3, 1e6);
  return round_up(static_cast<std::size_t>(bytes), std::size_t{4096});
}

/// sqrt(n o v): n = 4 MB of gradients, o = 60 us that a message costs besides its bytes, v bytes a second.
std::int64_t message_for(double bytes_per_second) {
  return static_cast<std::int64_t>(std::clamp(std::sqrt(4e6 * 60e-6 * bytes_per_second), 128e3, 4e6));
}

/// The slowest of all ranks' speeds. Collective.
RingSpeeds slowest(const MpiComm& comm, RingSpeeds speeds) {
  comm.call("a comparison of the network's speeds",
            [&](MPI_Comm all) { return MPI_Allreduce(MPI_IN_PLACE, &speeds, 2, MPI_DOUBLE, MPI_MIN, all); });
  return speeds;
}

/// The ranks of the smallest node.
int fewest_ranks(const MpiComm& comm, const MpiComm& node_comm) {
  int fewest = node_comm.size();
  comm.call("the ranks of a node",
            [&](MPI_Comm all) { return MPI_Allreduce(MPI_IN_PLACE, &fewest, 1, MPI_INT, MPI_MIN, all); });
  return fewest;
}

}  // namespace

std::optional<NodeNetwork> open_node_network(const MpiComm& comm, const MpiComm& node_comm,
                                             const MpiComm& rail, NetworkWay way, bool spins) {
  constexpr double kSeconds = 5;  // all ranks come at the same time
  constexpr std::size_t kMeasured = std::size_t{256} << 10;
  if (way == NetworkWay::mpi) return std::nullopt;
  const int couriers = fewest_ranks(comm, node_comm);
  std::optional<NodeBoard> board = NodeBoard::make(node_comm);
  if (!comm.on_all_ranks("shared memory for couriers", board.has_value())) return std::nullopt;
  const bool carries = node_comm.rank() < couriers;
  std::unique_ptr<Links> links;
  if (carries) links = TcpLinks::open(rail, kSeconds);
  if (!comm.on_all_ranks("connections between nodes", links != nullptr || !carries)) {
    if (comm.rank() == 0)
      log_warning(
          "not all nodes reach each other by TCP, so gradients go by MPI, after backward instead of "
          "beside it (a firewall may close the ports above 32767; --strategy.network mpi does not try)");
    return std::nullopt;
  }
  const RingSpeeds speeds = slowest(comm, carries ? measure_ring(*links, rail, kMeasured) : kNoLimit);
  if (way == NetworkWay::automatic && mpi_is_much_faster(speeds)) return std::nullopt;
  NodeNetwork network{.board = std::move(*board),
                      .couriers = couriers,
                      .message_bytes = message_for(speeds.links),
                      .bytes_per_second = speeds.links,
                      .courier = nullptr};
  if (carries)
    network.courier =
        std::make_unique<Courier>(std::move(links), chunk_for(speeds.links), spins, comm.watchdog());
  return network;
}

}  // namespace cxtrain
