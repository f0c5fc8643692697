#include "cxtrain/comm/between_nodes/node_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/log.h"
#include "cxtrain/comm/between_nodes/measure_links.h"
#include "cxtrain/comm/between_nodes/mpi_links.h"
#include "cxtrain/comm/between_nodes/polled_courier.h"
#include "cxtrain/comm/between_nodes/tcp_links.h"
#include "cxtrain/comm/between_nodes/thread_courier.h"

namespace cxtrain {
namespace {

/// Whether sums over nodes are faster by MPI, after backward, than by TCP, beside backward: a cluster may
/// have a fabric that only MPI knows, and a slow network beside it. Speeds in bytes a second.
bool mpi_is_much_faster(double by_mpi, double by_tcp) {
  constexpr double kHiddenByBackward = 5e9 / 8;
  return by_tcp < kHiddenByBackward && by_mpi > 3 * by_tcp;
}

/// The speed of the slowest rank. Collective over `comm`.
double slowest_of(const MpiComm& comm, double speed) {
  comm.call("a comparison of the network's speeds",
            [&](MPI_Comm all) { return MPI_Allreduce(MPI_IN_PLACE, &speed, 1, MPI_DOUBLE, MPI_MIN, all); });
  return speed;
}

/// The speed of the slowest rank's links. Ranks without links take part. Collective over `comm`.
double slowest_speed(const MpiComm& comm, Links* links) {
  constexpr std::size_t kMeasured = std::size_t{256} << 10;
  return slowest_of(comm, links != nullptr ? ring_speed(*links, comm.watchdog(), kMeasured)
                                           : std::numeric_limits<double>::infinity());
}

/// The mean speed of the slowest rank's links over about 50 ms. `speed`: of the links, about. Ranks without
/// links take part. Collective over `comm`.
double sustained_speed(const MpiComm& comm, Links* links, double speed) {
  constexpr double kSecondsOfRound = 2.5e-3;
  const double bytes = std::clamp(kSecondsOfRound * speed, 64e3, 16e6);
  return slowest_of(comm, links != nullptr
                              ? sustained_ring_speed(*links, comm.watchdog(), static_cast<std::size_t>(bytes))
                              : std::numeric_limits<double>::infinity());
}

/// Lets the connections use the congestion control cubic, unless the kernel's default is faster: BBR takes
/// twice the time for exchanges over fast links where packets do not leave by the scheduler fq, also where it
/// is hardly slower in a stream. `links`: of this rank, or null; `speed`: theirs. Collective over `comm`.
void try_cubic(const MpiComm& comm, TcpLinks* links, double speed) {
  const std::string cubic = "cubic", by_default = links != nullptr ? links->congestion_control() : cubic;
  if (comm.on_all_ranks("the kernel's congestion control", by_default == cubic)) return;
  const double before = sustained_speed(comm, links, speed);
  const bool has_cubic = links == nullptr || links->set_congestion_control(cubic);
  if (comm.on_all_ranks("another congestion control", has_cubic)) {
    constexpr double kAsFast = 0.95;
    if (sustained_speed(comm, links, speed) > kAsFast * before) {
      if (comm.rank() == 0)
        log_detail("connections between nodes use the congestion control cubic rather than " + by_default);
      return;
    }
  }
  if (links != nullptr) links->set_congestion_control(by_default);
}

/// The ranks of the smallest node.
int fewest_ranks(const MpiComm& comm, const MpiComm& node_comm) {
  int fewest = node_comm.size();
  comm.call("the ranks of a node",
            [&](MPI_Comm all) { return MPI_Allreduce(MPI_IN_PLACE, &fewest, 1, MPI_INT, MPI_MIN, all); });
  return fewest;
}

}  // namespace

std::size_t chunk_for(double bytes_per_second) {
  const double bytes = std::clamp(0.4e-3 * bytes_per_second, 64e3, 1e6);
  return round_up(static_cast<std::size_t>(bytes), std::size_t{4096});
}

std::int64_t message_for(double bytes_per_second) {
  return static_cast<std::int64_t>(std::clamp(std::sqrt(4e6 * 60e-6 * bytes_per_second), 128e3, 4e6));
}

std::optional<NodeNetwork> open_node_network(const MpiComm& comm, const MpiComm& node_comm,
                                             const MpiComm& rail, NetworkWay way, bool spins) {
  constexpr double kSeconds = 5;  // all ranks come at the same time
  const int couriers = fewest_ranks(comm, node_comm);
  std::optional<NodeBoard> board = NodeBoard::make(node_comm);
  if (!comm.on_all_ranks("shared memory for couriers", board.has_value())) return std::nullopt;
  const bool carries = node_comm.rank() < couriers;
  std::unique_ptr<TcpLinks> tcp;
  std::unique_ptr<Links> mpi;
  if (carries && way != NetworkWay::mpi) tcp = TcpLinks::open(rail, kSeconds);
  if (carries) mpi = std::make_unique<MpiLinks>(rail);
  bool by_tcp = way != NetworkWay::mpi;
  if (by_tcp && !comm.on_all_ranks("connections between nodes", tcp != nullptr || !carries)) {
    by_tcp = false;
    if (comm.rank() == 0)
      log_warning(
          "not all nodes reach each other by TCP, so gradients go by MPI, after backward instead of beside "
          "it "
          "(a firewall may close the ports above 32767; --strategy.network mpi does not try)");
  }
  const double tcp_speed = by_tcp ? slowest_speed(comm, tcp.get()) : 0;
  const bool measures_mpi = !by_tcp || way == NetworkWay::automatic;
  const double mpi_speed = measures_mpi ? slowest_speed(comm, mpi.get()) : 0;
  if (way == NetworkWay::automatic && by_tcp) by_tcp = !mpi_is_much_faster(mpi_speed, tcp_speed);
  const double speed = by_tcp ? tcp_speed : mpi_speed;
  if (by_tcp) try_cubic(comm, tcp.get(), speed);
  NodeNetwork network{.board = std::move(*board),
                      .couriers = couriers,
                      .message_bytes = message_for(speed),
                      .bytes_per_second = speed,
                      .by_tcp = by_tcp,
                      .courier = nullptr,
                      .tcp_links = by_tcp ? tcp.get() : nullptr};
  if (carries && by_tcp)
    network.courier =
        std::make_unique<ThreadCourier>(std::move(tcp), chunk_for(speed), spins, comm.watchdog());
  if (carries && !by_tcp)
    network.courier = std::make_unique<PolledCourier>(std::move(mpi), chunk_for(speed), comm.watchdog());
  return network;
}

}  // namespace cxtrain
