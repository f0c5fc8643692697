#include "launchers/mpirun.h"

#include <csignal>
#include <cstdlib>
#include <optional>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/cluster/launch_environment.h"
#include "launchers/child_process.h"
#include "launchers/rank_connections.h"
#include "launchers/signal_inbox.h"

namespace cxtrain {
namespace {

/// Set for mpirun's children. One that finds it, and is alone all the same, would start mpirun for ever.
constexpr const char* kStartedByUs = "CXTRAIN_STARTED_BY_MPIRUN";

constexpr const char* kRightMpirun = "; put the one of the MPI that this program was built with into $PATH";

/// The environment of mpirun and its ranks. Throws CommunicationError where an mpirun of another MPI has
/// started this process.
void prepare_mpirun(int ranks, int per_node) {
  if (std::getenv(kStartedByUs) != nullptr) {
    throw CommunicationError(
        "the mpirun in $PATH started this process, but the MPI of this program sees no rank: "
        "it belongs to another MPI; put the right one first in $PATH, or start the ranks with it yourself",
        MessageCode::wrong_mpi);
  }
  prepare_environment(per_node > 0 ? per_node : ranks);
  // Between ranks of one machine nothing goes over TCP, whose IPv6 addresses Open MPI 5 takes for errors on
  // machines that have both kinds (open-mpi/ompi#14079), and prints a line for each rank.
  if (per_node == 0) setenv("OMPI_MCA_btl_tcp_disable_family", "6", /*overwrite=*/0);
  setenv(kStartedByUs, "1", /*overwrite=*/1);
}

class MpirunOfThisProcess {
 public:
  MpirunOfThisProcess(int ranks, const Program& program)
      : ranks_(ranks), connections_(ranks), mpirun_(start(program)), children_(mpirun_) {}

  int run() {
    constexpr int kLook = 1000;  // milliseconds: a thread of a library may have taken SIGCHLD
    while (!mpirun_.status()) {
      look(kLook);
      children_.kill_stuck_parent();
    }
    // At the last reports; a look accepts one rank, and reads a number of each.
    for (int pass = 0; pass < ranks_ + 2; ++pass) look(0);
    constexpr int kNotFound = 127;
    if (*mpirun_.status() == kNotFound && connections_.ranks().empty())
      throw CommunicationError("mpirun cannot be started" + std::string(kRightMpirun),
                               MessageCode::launch_failed);
    // Open MPI 4's mpirun may crash when its ranks have ended (in PMIx_server_finalize).
    return mpirun_.was_killed() ? status_of_ranks().value_or(*mpirun_.status()) : *mpirun_.status();
  }

 private:
  void look(int milliseconds) {
    connections_.wait(milliseconds, signals_, [this](int signal) { on_signal(signal); });
  }

  /// The first status that is not 0, or 0; absent if a rank has not reported its status.
  std::optional<int> status_of_ranks() const {
    const auto& ranks = connections_.ranks();
    if (static_cast<int>(ranks.size()) < ranks_) return std::nullopt;
    int status = 0;
    for (const RankConnections::Rank& rank : ranks) {
      if (!rank.status) return std::nullopt;
      if (status == 0) status = *rank.status;
    }
    return status;
  }

  std::vector<std::string> start(const Program& program) {
    setenv(kStarterVariable, connections_.address().c_str(), /*overwrite=*/1);
    return mpirun_command(ranks_, /*per_node=*/0, program);
  }

  void on_signal(int signal) {
    if (signal == SIGCHLD) return;  // `run` looks
    end_signals_ += ends_a_process(signal) ? 1 : 0;
    const auto& ranks = connections_.ranks();  // those that have ended, too
    if (end_signals_ > 2) {
      mpirun_.kill_group();
    } else if (static_cast<int>(ranks.size()) < ranks_) {
      mpirun_.send(signal);
    } else {
      for (const RankConnections::Rank& rank : ranks) {
        if (rank.connection) kill(rank.pid, signal);
      }
    }
  }

  int ranks_;
  SignalInbox signals_{SIGCHLD};
  RankConnections connections_;
  ChildProcess mpirun_;
  UnreapedChildren children_;  ///< of mpirun
  int end_signals_ = 0;
};

}  // namespace

std::vector<std::string> mpirun_command(int ranks, int per_node, const Program& program) {
  std::vector<std::string> command{"mpirun", "-np", std::to_string(ranks)};
  if (per_node > 0) command.insert(command.end(), {"--map-by", "ppr:" + std::to_string(per_node) + ":node"});
  const std::vector<std::string> words = words_of(program);
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

void become_mpirun(int ranks, int per_node, const Program& program) {
  prepare_mpirun(ranks, per_node);
  try {
    become_command(mpirun_command(ranks, per_node, program));
  } catch (const Error& error) {
    throw CommunicationError(error.what() + std::string(kRightMpirun), MessageCode::launch_failed);
  }
}

int run_mpirun(int ranks, const Program& program) {
  prepare_mpirun(ranks, /*per_node=*/0);
  return MpirunOfThisProcess(ranks, program).run();
}

}  // namespace cxtrain
