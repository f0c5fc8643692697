#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>

namespace cxtrain {

/// Another program, found in $PATH, in a process group of its own, so that Ctrl-C reaches it once, by way of
/// this process. It gets SIGTERM when this process dies, starts with no signal blocked, and is killed with
/// its group where this object ends first.
class ChildProcess {
 public:
  /// `output`: a descriptor for what the program writes, errors included; -1: this process's. Throws
  /// CommunicationError where no process can be started. A program that is not there ends with 127.
  explicit ChildProcess(std::span<const std::string> words, int output = -1);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const noexcept { return process_; }
  /// Its exit status as shells count, 128 + N where signal N ended it; absent while it runs. Does not wait:
  /// to be called when SIGCHLD has come.
  std::optional<int> status();
  /// Whether a signal has ended it.
  bool was_killed() const noexcept { return was_killed_; }
  void send(int signal) const;
  /// Kills the process and what it has started in its group.
  void kill_group() const;

 private:
  pid_t process_ = -1;
  std::optional<int> status_;
  bool was_killed_ = false;
};

/// Returns whether the process is Open MPI's mpirun, by its program's name ("mpirun.openmpi" on Debian):
/// prterun in Open MPI 5.
bool is_mpirun(pid_t process);

/// Kills an mpirun that hangs after its ranks have ended: it leaves the ranks as zombies. The mpirun of Open
/// MPI 4 does so now and then when a rank was killed while it started; the threads of PMIx then wait for each
/// other.
class UnreapedChildren {
 public:
  /// `parent`: an mpirun, or what was started as one; outlives the object.
  explicit UnreapedChildren(const ChildProcess& parent) : parent_(parent) {}

  /// Kills the process with its group, and logs an error, if it has children, and all of them have been dead
  /// for ten seconds. A process that is stopped cannot reap its children, and stays. Called about once a
  /// second while the process runs.
  void kill_stuck_parent();

 private:
  using Monotonic = std::chrono::steady_clock;

  const ChildProcess& parent_;
  std::optional<Monotonic::time_point> since_;  ///< all children have been dead
};

}  // namespace cxtrain
