#include "cxtrain/cluster/mpi_comm.h"

#include <sys/prctl.h>

#include <csignal>
#include <string>
#include <utility>

#include "cxtrain/base/error.h"

namespace cxtrain {

MpiSession::MpiSession(Watchdog& watchdog) : watchdog_(watchdog) {
  const Watchdog::Wait wait(watchdog_, "the start of MPI");
  // The parent is mpirun, or its daemon on this node. A killed mpirun of Open MPI 4 takes its ranks along;
  // that of Open MPI 5 leaves them behind, in the run's folder and on the GPUs.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED) {
    throw CommunicationError(
        "this MPI does not offer MPI_THREAD_SERIALIZED, which cxtrain needs; use a build of "
        "MPI with thread support",
        MessageCode::wrong_mpi);
  }
}

MpiSession::~MpiSession() {
  const Watchdog::Wait wait(watchdog_, "the end of MPI");
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

MpiComm::MpiComm(MPI_Comm comm, Watchdog& watchdog) : comm_(comm), watchdog_(&watchdog) {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

MpiComm::~MpiComm() {
  if (comm_ == MPI_COMM_NULL || std::uncaught_exceptions() > exceptions_) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  const Watchdog::Wait wait(*watchdog_, "the end of a communicator", Watchdog::Wait::Of::some_ranks);
  MPI_Comm_free(&comm_);
}

MpiComm::MpiComm(MpiComm&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)), watchdog_(other.watchdog_) {}

MpiComm& MpiComm::operator=(MpiComm&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(watchdog_, other.watchdog_);
  return *this;
}

MpiComm MpiComm::duplicate_of(MPI_Comm comm, Watchdog& watchdog) {
  MPI_Comm copy = MPI_COMM_NULL;
  const Watchdog::Wait wait(watchdog, "MPI_Comm_dup");
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return MpiComm(copy, watchdog);
}

MpiComm MpiComm::split_by_node() const {
  MPI_Comm node = MPI_COMM_NULL;
  call("MPI_Comm_split_type", [&](MPI_Comm comm) {
    return MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  });
  return MpiComm(node, *watchdog_);
}

MpiComm MpiComm::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  call("MPI_Comm_split", [&](MPI_Comm comm) { return MPI_Comm_split(comm, color, key, &part); });
  return MpiComm(part, *watchdog_);
}

int MpiComm::rank() const {
  int rank = 0;
  MPI_Comm_rank(comm_, &rank);
  return rank;
}

int MpiComm::size() const {
  int size = 0;
  MPI_Comm_size(comm_, &size);
  return size;
}

bool MpiComm::on_all_ranks(const char* operation, bool here) const {
  int everywhere = here ? 1 : 0;
  call(operation,
       [&](MPI_Comm comm) { return MPI_Allreduce(MPI_IN_PLACE, &everywhere, 1, MPI_INT, MPI_MIN, comm); });
  return everywhere == 1;
}

}  // namespace cxtrain
