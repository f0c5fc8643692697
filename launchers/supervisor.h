#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "launchers/rank_connections.h"
#include "launchers/signal_inbox.h"

namespace cxtrain {

/// Watches over ranks on this node that are nobody's child here (MPI's daemon is their parent), by the
/// connections that they hold.
class Supervisor {
 public:
  struct Deadlines {
    /// For all ranks to connect.
    std::chrono::milliseconds start{60000};
    /// For the others to follow one that failed, before they are killed.
    std::chrono::milliseconds end{10000};
    /// After a failure or a signal that ends the job, for ranks that have not connected.
    std::chrono::milliseconds late{2000};
  };
  Supervisor(int ranks, Deadlines deadlines);
  explicit Supervisor(int ranks) : Supervisor(ranks, Deadlines{}) {}

  /// What the ranks find in kSupervisorVariable.
  const std::string& address() const noexcept { return connections_.address(); }

  /// Passes signals on to all ranks (a second one that asks them to end becomes SIGKILL), and returns when
  /// every rank has ended. Returns 0 when all ended well, else the status of the first that did not: what it
  /// reported; 128 + the signal that this process was sent; 1 for one that died without a report, which is
  /// logged. `starter`: the reading end of a pipe from the process that starts the ranks: it writes there why
  /// it cannot, and its death closes the pipe; -1: none.
  int watch(SignalInbox& signals, int starter = -1);

 private:
  using Clock = std::chrono::steady_clock;
  void on_event(const RankConnections::Event& event);
  void read_from_starter(int starter);
  void look_at_clock();
  std::string ranks_not_connected() const;
  void on_signal(int signal);
  void on_end(const RankConnections::Rank& rank);
  void fail(int status);
  void signal_all(int signal) const;
  bool all_ended() const;
  int connected() const { return static_cast<int>(connections_.ranks().size()); }

  int ranks_;
  Deadlines deadlines_;
  RankConnections connections_;
  int ended_ = 0;
  std::optional<int> failure_;
  std::optional<int> end_signal_;  ///< that asked the ranks to end
  std::set<int> other_signals_;    ///< that came, for ranks that have not connected
  std::optional<Clock::time_point> kill_at_, late_at_;
  Clock::time_point start_ = Clock::now();
  bool starter_gone_ = false;
};

/// A rank's end of its connections.
class SupervisorLink {
 public:
  /// Connects to the processes that the environment names: the one that has spawned this rank, the one that
  /// has started this rank's mpirun, and the restarter, as far as they are on this node. If the environment
  /// names none, all calls do nothing. Throws CommunicationError when the one that has spawned it cannot be
  /// reached.
  explicit SupervisorLink(int rank);

  /// Reports the exit status with which this rank ends.
  void report(int status) noexcept;

 private:
  std::vector<FileDescriptor> connections_;
};

}  // namespace cxtrain
