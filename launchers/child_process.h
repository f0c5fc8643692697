#pragma once

#include <sys/types.h>

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

}  // namespace cxtrain
