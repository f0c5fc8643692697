#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {

/// While it lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 do nothing to this process but arrive here.
/// Make one before other threads start: they inherit that these signals are not for them.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// To poll for.
  int descriptor() const noexcept { return descriptor_; }
  /// The next signal that has arrived, if any; does not wait.
  std::optional<int> take();

 private:
  int descriptor_ = -1;
  sigset_t before_{};
};

/// Whether the signal asks a process to end.
bool ends_a_process(int signal);

/// Watches over ranks on this node that are nobody's child here (MPI's daemon is their parent). Each holds a
/// connection to a local socket, over which it says which rank it is and, at its end, its exit status. The
/// kernel closes the connection of one that dies, so that no death goes unnoticed.
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
  const std::string& address() const noexcept { return address_; }

  /// Passes signals on to all ranks (a second one that asks them to end becomes SIGKILL), and returns when
  /// every rank has ended. Returns 0 when all ended well, else the status of the first that did not: what it
  /// reported; 128 + the signal that this process was sent; 1 for one that died without a report, which is
  /// logged. `starter`: the reading end of a pipe from the process that starts the ranks: it writes there why
  /// it cannot, and its death closes the pipe; -1: none.
  int watch(SignalInbox& signals, int starter = -1);

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    FileDescriptor connection;
    pid_t pid = 0;
    int number = -1;            ///< -1: connected, but has not said yet
    std::optional<int> status;  ///< what it reported
  };

  void accept_rank();
  void read_from_starter(int starter);
  void look_at_clock();
  std::string ranks_not_connected() const;
  void read_from(Rank& rank);
  void on_signal(int signal);
  void on_end(const Rank& rank);
  void fail(int status);
  void signal_all(int signal) const;
  bool all_ended() const;

  int ranks_;
  Deadlines deadlines_;
  std::string address_;
  FileDescriptor listener_;
  std::vector<Rank> connected_;
  int ended_ = 0;
  std::optional<int> failure_;
  std::optional<int> end_signal_;  ///< that asked the ranks to end
  std::set<int> other_signals_;    ///< that came, for ranks that have not connected
  std::optional<Clock::time_point> kill_at_, late_at_;
  Clock::time_point start_ = Clock::now();
  bool starter_gone_ = false;
};

/// A rank's end of the connection.
class SupervisorLink {
 public:
  /// Connects to the supervisor that the environment names; without one, all calls do nothing. Throws
  /// CommunicationError when it cannot be reached.
  explicit SupervisorLink(int rank);

  /// The last words of this rank.
  void report(int status) noexcept;

 private:
  FileDescriptor connection_;
};

}  // namespace cxtrain
