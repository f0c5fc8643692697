#include "cxtrain/cluster/mpi_world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <numeric>

#include "cxtrain/base/error.h"
#include "cxtrain/base/hostname.h"
#include "cxtrain/base/log.h"

namespace cxtrain {
namespace {

MpiComm split_by_node(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN);
  return MpiComm(node);
}

WorldFacts collect_facts(MPI_Comm comm, MPI_Comm node_comm) {
  WorldFacts facts;
  MPI_Comm_rank(comm, &facts.rank);
  MPI_Comm_size(comm, &facts.size);
  MPI_Comm_rank(node_comm, &facts.local_rank);
  MPI_Comm_size(node_comm, &facts.local_size);

  // A node's number is its place among the nodes ordered by their lowest world rank.
  int lowest = facts.rank;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, node_comm), "MPI_Allreduce");
  std::vector<int> lowest_of(static_cast<std::size_t>(facts.size));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, lowest_of.data(), 1, MPI_INT, comm), "MPI_Allgather");
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

}  // namespace

MpiSession::MpiSession() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED) {
    throw CommunicationError(
        "this MPI does not offer MPI_THREAD_SERIALIZED, which cxtrain needs; use a build of "
        "MPI with thread support");
  }
}

MpiSession::~MpiSession() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw CommunicationError(std::string(call) +
                           " failed: " + std::string(text, static_cast<std::size_t>(length)));
}

bool on_all_ranks(bool here, MPI_Comm comm) {
  int everywhere = here ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &everywhere, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return everywhere == 1;
}

MpiComm::~MpiComm() {
  if (comm_ == MPI_COMM_NULL || std::uncaught_exceptions() > 0)
    return;  // collective: not on the way out of an error
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&comm_);
}

MpiComm& MpiComm::operator=(MpiComm&& other) noexcept {
  std::swap(comm_, other.comm_);
  return *this;
}

MpiComm MpiComm::duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return MpiComm(copy);
}

std::unique_ptr<MpiWorld> MpiWorld::start() {
  auto session = std::make_unique<MpiSession>();
  MpiComm comm = MpiComm::duplicate(MPI_COMM_WORLD);
  MpiComm node_comm = split_by_node(comm.get());
  return std::unique_ptr<MpiWorld>(new MpiWorld(std::move(session), std::move(comm), std::move(node_comm)));
}

MpiWorld::MpiWorld(std::unique_ptr<MpiSession> session, MpiComm comm, MpiComm node_comm)
    : World(collect_facts(comm.get(), node_comm.get())),
      session_(std::move(session)),
      comm_(std::move(comm)),
      node_comm_(std::move(node_comm)),
      watchdog_([this](const char* operation, double seconds) { give_up(operation, seconds); }) {}

void MpiWorld::set_timeout(double seconds, std::function<std::string()> where) {
  where_ = std::move(where);
  watchdog_.set_timeout(seconds);
}

/// The thread that waits is inside MPI, so that no call of MPI's can end the job from here; the launcher ends
/// it when a rank is gone.
void MpiWorld::give_up(const char* operation, double seconds) const {
  const std::string where = where_ ? where_() : std::string();
  log_error(
      "rank " + std::to_string(rank()) + " on " + facts().hostname + (where.empty() ? "" : ", " + where) +
      ": " + operation + " has waited for the other ranks for " + std::to_string(static_cast<int>(seconds)) +
      " s; one of them is stopped, slow or elsewhere in the program (--timeout_seconds sets the limit)");
  _exit(static_cast<int>(ExitCode::failure));
}

void MpiWorld::barrier() {
  const Watchdog::Wait wait(watchdog_, "a barrier");
  check_mpi(MPI_Barrier(comm()), "MPI_Barrier");
}

std::int64_t MpiWorld::max(std::int64_t value) {
  const Watchdog::Wait wait(watchdog_, "an agreement of all ranks");
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, comm()), "MPI_Allreduce");
  return value;
}

void MpiWorld::sum(std::span<double> values) {
  const Watchdog::Wait wait(watchdog_, "a sum over all ranks");
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM,
                          comm()),
            "MPI_Allreduce");
}

std::vector<std::string> MpiWorld::all_gather(std::string_view text) {
  const Watchdog::Wait wait(watchdog_, "a gathering of all ranks");
  const auto ranks = static_cast<std::size_t>(size());
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(ranks), offsets(ranks);
  check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm()), "MPI_Allgather");
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  check_mpi(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                           MPI_CHAR, comm()),
            "MPI_Allgatherv");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

std::string MpiWorld::broadcast(std::string text, int root) {
  const Watchdog::Wait wait(watchdog_, "a broadcast");
  auto length = static_cast<std::int64_t>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT64_T, root, comm()), "MPI_Bcast");
  text.resize(static_cast<std::size_t>(length));
  check_mpi(MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, root, comm()), "MPI_Bcast");
  return text;
}

void MpiWorld::abort(int status) noexcept { MPI_Abort(comm(), status); }

}  // namespace cxtrain
