#include "cxtrain/cluster/mpi_world.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <type_traits>

#include "cxtrain/base/process.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/network.h"

namespace cxtrain {
namespace {

/// Ranks and processes of this node's ranks, in the order of `node_comm`.
std::vector<std::array<int, 2>> ranks_of_node(const MpiComm& comm, const MpiComm& node_comm) {
  const std::array<int, 2> mine{comm.rank(), static_cast<int>(getpid())};
  std::vector<std::array<int, 2>> all(static_cast<std::size_t>(node_comm.size()));
  node_comm.call("an allgather of the node's ranks", [&](MPI_Comm node) {
    return MPI_Allgather(mine.data(), 2, MPI_INT, all.data(), 2, MPI_INT, node);
  });
  return all;
}

/// What all have to know of a node. Its first rank fills it in.
struct NodeRecord {
  std::array<char, 64> name{};  // HOST_NAME_MAX
  std::array<std::uint32_t, kMaxAddresses> addresses{};
  std::uint64_t port = 0;
  std::uint64_t token = 0;  ///< of the job; in the first node's
};

/// Of every node.
std::vector<NodeRecord> exchange_records(const MpiComm& comm, const WorldFacts& facts,
                                         const NodeSocket& socket) {
  static_assert(std::is_trivially_copyable_v<NodeRecord>);
  std::vector<NodeRecord> records(static_cast<std::size_t>(facts.num_nodes));
  if (facts.local_rank == 0) {
    NodeRecord& own = records[static_cast<std::size_t>(facts.node)];
    facts.hostname.copy(own.name.data(), own.name.size() - 1);
    std::copy(socket.addresses.begin(), socket.addresses.end(), own.addresses.begin());
    own.port = socket.port;
    if (facts.rank == 0) own.token = random_token();
  }
  comm.call("an allreduce of the nodes' names", [&](MPI_Comm all) {
    return MPI_Allreduce(MPI_IN_PLACE, records.data(), static_cast<int>(records.size() * sizeof(NodeRecord)),
                         MPI_UINT8_T, MPI_BOR, all);
  });
  return records;
}

/// The nodes, which ask each other when a rank has waited too long.
LivenessProbe call_of(const std::vector<NodeRecord>& records, const WorldFacts& facts, NodeSocket socket) {
  std::vector<std::vector<std::uint32_t>> addresses;
  std::vector<std::uint16_t> ports;
  for (const NodeRecord& record : records) {
    std::erase(addresses.emplace_back(record.addresses.begin(), record.addresses.end()), 0U);
    ports.push_back(static_cast<std::uint16_t>(record.port));
  }
  return liveness_probe_of_nodes(std::move(socket.socket), records[0].token, facts.node, std::move(addresses),
                                 std::move(ports));
}

WorldFacts collect_facts(const MpiComm& comm, const MpiComm& node_comm, int lowest) {
  WorldFacts facts;
  facts.rank = comm.rank();
  facts.size = comm.size();
  facts.local_rank = node_comm.rank();
  facts.local_size = node_comm.size();

  // A node's number is its place among the nodes ordered by their lowest world rank.
  std::vector<int> lowest_of(static_cast<std::size_t>(facts.size));
  comm.call("the exchange of all ranks' nodes", [&](MPI_Comm all) {
    return MPI_Allgather(&lowest, 1, MPI_INT, lowest_of.data(), 1, MPI_INT, all);
  });
  std::map<int, int> ranks_on_node;
  for (int value : lowest_of) ++ranks_on_node[value];
  for (int value : lowest_of) {
    facts.rank_nodes.push_back(
        static_cast<int>(std::distance(ranks_on_node.begin(), ranks_on_node.find(value))));
  }
  facts.num_nodes = static_cast<int>(ranks_on_node.size());
  facts.node = static_cast<int>(std::distance(ranks_on_node.begin(), ranks_on_node.find(lowest)));
  for (const auto& [rank, count] : ranks_on_node)
    facts.max_local_size = std::max(facts.max_local_size, count);

  facts.hostname = hostname();
  facts.launched_by = detect_launcher();
  return facts;
}

/// Texts that lie one behind the other, of ranks in their order.
struct Gathered {
  explicit Gathered(std::vector<int> lengths_of_ranks)
      : lengths(std::move(lengths_of_ranks)), offsets(lengths.size()) {
    std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
    if (!lengths.empty())
      texts.resize(static_cast<std::size_t>(offsets.back()) + static_cast<std::size_t>(lengths.back()));
  }
  std::vector<std::string> split() const {
    std::vector<std::string> each;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      each.push_back(
          texts.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
    return each;
  }

  std::vector<int> lengths, offsets;
  std::string texts;
};

constexpr const char* kGathering = "an allgather of all ranks";

/// The text of every rank of a communicator, in their order.
std::vector<std::string> gather_texts(const MpiComm& comm, std::string_view text) {
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(comm.size()));
  comm.call(kGathering, [&](MPI_Comm all) {
    return MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, all);
  });
  Gathered gathered(std::move(lengths));
  comm.call(kGathering, [&](MPI_Comm all) {
    return MPI_Allgatherv(text.data(), length, MPI_CHAR, gathered.texts.data(), gathered.lengths.data(),
                          gathered.offsets.data(), MPI_CHAR, all);
  });
  return gathered.split();
}

}  // namespace

MpiWorld::Connection::Connection(double timeout_seconds)
    : hang_reporter(read_launch_environment()),
      watchdog(timeout_seconds,
               [this](Watchdog::Cause cause, const char* operation, double seconds) {
                 const std::string record = watchdog.record();
                 if (cause == Watchdog::Cause::signal) return hang_reporter.save(record);
                 if (cause == Watchdog::Cause::error) hang_reporter.end_broken(operation, record);
                 hang_reporter.end_late(watchdog.wait_of_alarm(), seconds, record);
               },
               {.descriptor = hang_reporter.descriptor(),
                .work = [this](const Watchdog::WaitInfo& wait) { hang_reporter.answer(wait); }}),
      session(watchdog),
      comm(MpiComm::duplicate_of(MPI_COMM_WORLD, watchdog)),
      node_comm(comm.split_by_node()) {}

std::unique_ptr<MpiWorld> MpiWorld::start(double timeout_seconds) {
  auto connection = std::make_unique<Connection>(timeout_seconds);
  const auto node = ranks_of_node(connection->comm, connection->node_comm);
  const int lowest = (*std::ranges::min_element(node))[0];
  WorldFacts facts = collect_facts(connection->comm, connection->node_comm, lowest);
  std::optional<LivenessProbe> nodes;
  if (facts.num_nodes > 1) {
    NodeSocket socket = open_node_socket();
    const std::vector<NodeRecord> records = exchange_records(connection->comm, facts, socket);
    for (const NodeRecord& record : records) facts.node_names.emplace_back(record.name.data());
    nodes = call_of(records, facts, std::move(socket));
  }
  std::unique_ptr<MpiWorld> world(new MpiWorld(std::move(facts), std::move(connection)));
  const auto process_of = [](const std::array<int, 2>& rank) { return rank[1]; };
  world->connection_->hang_reporter.set_world(*world, transformed(node, process_of));
  if (nodes) world->connection_->hang_reporter.set_nodes(*std::move(nodes));
  return world;
}

MpiWorld::MpiWorld(WorldFacts facts, std::unique_ptr<Connection> connection)
    : World(std::move(facts)), connection_(std::move(connection)) {}

MpiWorld::~MpiWorld() = default;

void MpiWorld::set_timeout(double seconds, std::function<std::string()> where) {
  connection_->hang_reporter.set_where(std::move(where));
  connection_->watchdog.set_timeout(seconds);
}

void MpiWorld::barrier() {
  comm().call("a barrier", [](MPI_Comm all) { return MPI_Barrier(all); });
}

std::int64_t MpiWorld::max(std::int64_t value) {
  comm().call("an allreduce of the status flags", [&](MPI_Comm all) {
    return MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, all);
  });
  return value;
}

std::uint64_t MpiWorld::any(std::uint64_t flags) {
  comm().call("an allreduce of the status flags", [&](MPI_Comm all) {
    return MPI_Allreduce(MPI_IN_PLACE, &flags, 1, MPI_UINT64_T, MPI_BOR, all);
  });
  return flags;
}

void MpiWorld::begin_any(std::uint64_t flags) {
  begun_ = flags;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, &begun_, 1, MPI_UINT64_T, MPI_BOR, comm().get(), &agreement_),
            "the start of an allreduce of the status flags");
}

std::uint64_t MpiWorld::end_any() {
  comm().call("an allreduce of the status flags",
              [&](MPI_Comm) { return MPI_Wait(&agreement_, MPI_STATUS_IGNORE); });
  return begun_;
}

void MpiWorld::sum(std::span<double> values) {
  comm().call("an allreduce (sum over all ranks)", [&](MPI_Comm all) {
    return MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM,
                         all);
  });
}

std::vector<std::string> MpiWorld::all_gather(std::string_view text) { return gather_texts(comm(), text); }

std::vector<std::string> MpiWorld::gather_root(std::string_view text) {
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(is_root() ? static_cast<std::size_t>(size()) : 0);
  comm().call(kGathering, [&](MPI_Comm all) {
    return MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, all);
  });
  Gathered gathered(std::move(lengths));
  comm().call(kGathering, [&](MPI_Comm all) {
    return MPI_Gatherv(text.data(), length, MPI_CHAR, gathered.texts.data(), gathered.lengths.data(),
                       gathered.offsets.data(), MPI_CHAR, 0, all);
  });
  return gathered.split();
}

std::vector<std::string> MpiWorld::gather_node(std::string_view text) {
  return gather_texts(node_comm(), text);
}

std::string MpiWorld::broadcast(std::string text, int root) {
  constexpr const char* kOperation = "a broadcast";
  auto length = static_cast<std::int64_t>(text.size());
  comm().call(kOperation, [&](MPI_Comm all) { return MPI_Bcast(&length, 1, MPI_INT64_T, root, all); });
  text.resize(static_cast<std::size_t>(length));
  comm().call(kOperation, [&](MPI_Comm all) {
    return MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, root, all);
  });
  return text;
}

void MpiWorld::abort(int status) noexcept { MPI_Abort(comm().get(), status); }

}  // namespace cxtrain
