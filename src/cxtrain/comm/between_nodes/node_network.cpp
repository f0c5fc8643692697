#include "cxtrain/comm/between_nodes/node_network.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cxtrain/base/align.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/comm/between_nodes/links.h"
#include "cxtrain/comm/between_nodes/polled_courier.h"
#include "cxtrain/comm/between_nodes/tcp_links.h"
#include "cxtrain/comm/between_nodes/thread_courier.h"

namespace cxtrain {
namespace {

/// Messages of MPI to one rank of each other node, and from it: for networks that only MPI knows. Only the
/// thread that may call MPI uses the links. Both sides of a link cut its bytes in the same places: `receive`
/// gets as many bytes as the other node's `send`.
class MpiLinks final : public Links {
 public:
  /// `rail`, which outlives the links, has one rank on each node, in the order of the nodes.
  /// Nothing may be under way when the links are destroyed.
  explicit MpiLinks(const MpiComm& rail)
      : rail_(rail),
        outgoing_(static_cast<std::size_t>(rail.size())),
        incoming_(static_cast<std::size_t>(rail.size())) {}

  int node() const override { return rail_.rank(); }
  int nodes() const override { return static_cast<int>(outgoing_.size()); }

  std::uint64_t send(int node, std::span<const std::byte> bytes) override {
    return begin(outgoing_, node, bytes.size(), [&](int count, MPI_Request* request) {
      // A send that MPI has only buffered would count as complete, and might wait for this rank's next call.
      return MPI_Issend(bytes.data(), count, MPI_BYTE, node, kExchangeTag, rail_.get(), request);
    });
  }
  std::uint64_t receive(int node, std::span<std::byte> bytes) override {
    return begin(incoming_, node, bytes.size(), [&](int count, MPI_Request* request) {
      return MPI_Irecv(bytes.data(), count, MPI_BYTE, node, kExchangeTag, rail_.get(), request);
    });
  }
  std::uint64_t sent(int node) const override { return outgoing_[static_cast<std::size_t>(node)].moved; }
  std::uint64_t received(int node) const override { return incoming_[static_cast<std::size_t>(node)].moved; }

  bool proceed() override {
    bool moved = false;
    while (count_moved()) moved = true;
    return moved;
  }
  /// Gives the core to another process, and returns: MPI has no wait that others could end.
  void wait() override { std::this_thread::yield(); }
  void interrupt() noexcept override {}

 private:
  static constexpr int kExchangeTag = 7;

  struct Message {
    MPI_Request request;
    std::size_t bytes;
  };
  /// Messages in one direction of a link, in the order in which they began.
  struct Queue {
    std::deque<Message> messages;
    std::uint64_t begun = 0, moved = 0;  ///< bytes
  };

  /// Puts a message at the end of a node's queue, and returns the bytes that the queue has begun. `call`
  /// begins the message: it gets the count of bytes and the request, and returns MPI's status.
  template <class Call>
  static std::uint64_t begin(std::vector<Queue>& queues, int node, std::size_t bytes, const Call& call) {
    Queue& queue = queues[static_cast<std::size_t>(node)];
    if (bytes > 0) {
      Message message{MPI_REQUEST_NULL, bytes};
      check_mpi(call(static_cast<int>(bytes), &message.request), "a message between nodes");
      queue.messages.push_back(message);
    }
    return queue.begun += bytes;
  }

  /// Counts the messages at the front of the queues that have moved. Returns whether there was one.
  bool count_moved() {
    waiting_.clear();
    requests_.clear();
    for (std::vector<Queue>* const queues : {&incoming_, &outgoing_}) {
      for (Queue& queue : *queues) {
        if (queue.messages.empty()) continue;
        waiting_.push_back(&queue);
        requests_.push_back(queue.messages.front().request);
      }
    }
    if (requests_.empty()) return false;
    indices_.resize(requests_.size());
    int complete = 0;
    check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &complete, indices_.data(),
                           MPI_STATUSES_IGNORE),
              "messages between nodes");
    for (int i = 0; i < complete; ++i) {
      Queue& queue = *waiting_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
      queue.moved += queue.messages.front().bytes;
      queue.messages.pop_front();
    }
    return complete > 0;
  }

  const MpiComm& rail_;
  std::vector<Queue> outgoing_, incoming_;  ///< by node
  std::vector<Queue*> waiting_;             ///< queues that have a message
  std::vector<MPI_Request> requests_;       ///< of the first message of each
  std::vector<int> indices_;                ///< of requests that are complete
};

/// Sends messages of `bytes` around the ring of all nodes: in each round each node sends to the next node
/// while it receives from the node before. Returns this node's seconds of each round. The ranks that the
/// links connect call it together.
std::vector<double> seconds_of_rounds(Links& links, Watchdog& watchdog, std::size_t bytes, int rounds) {
  const int nodes = links.nodes(), next = (links.node() + 1) % nodes,
            before = (links.node() + nodes - 1) % nodes;
  const std::vector<std::byte> message(bytes);
  std::vector<std::byte> received(bytes);
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const Watchdog::Wait wait(watchdog, "a measurement of the network", Watchdog::Wait::Of::some_ranks);
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t left = links.send(next, message), come = links.receive(before, received);
    for (links.proceed(); links.sent(next) < left || links.received(before) < come; links.proceed())
      links.wait();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return seconds;
}

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

/// The speed of the slowest rank's links, in bytes a second, where each rank counts the fastest of several
/// rounds. Ranks without links take part. Collective over `comm`.
double slowest_speed(const MpiComm& comm, Links* links) {
  constexpr std::size_t kMeasured = std::size_t{256} << 10;
  constexpr int kRounds = 5;
  double speed = std::numeric_limits<double>::infinity();
  if (links != nullptr)
    speed = static_cast<double>(kMeasured) /
            std::ranges::min(seconds_of_rounds(*links, comm.watchdog(), kMeasured, kRounds));
  return slowest_of(comm, speed);
}

/// The mean speed of the slowest rank's links over about 50 ms: an algorithm of congestion control needs
/// several rounds to reach its speed. `speed`: of the links, about. Ranks without links take part. Collective
/// over `comm`.
double sustained_speed(const MpiComm& comm, Links* links, double speed) {
  constexpr double kSecondsOfRound = 2.5e-3;
  constexpr int kRounds = 20;
  const auto bytes = static_cast<std::size_t>(std::clamp(kSecondsOfRound * speed, 64e3, 16e6));
  double mean = std::numeric_limits<double>::infinity();
  if (links != nullptr) {
    const std::vector<double> seconds = seconds_of_rounds(*links, comm.watchdog(), bytes, kRounds);
    mean = kRounds * static_cast<double>(bytes) / std::accumulate(seconds.begin(), seconds.end(), 0.0);
  }
  return slowest_of(comm, mean);
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
