#include "launchers/child_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"

namespace cxtrain {

ChildProcess::ChildProcess(std::span<const std::string> words, int output) {
  const std::vector<char*> argv = argument_vector(words);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0)
    throw CommunicationError("cannot start " + words.front() + ": fork: " + std::strerror(errno),
                             MessageCode::launch_failed);
  if (process_ > 0) return;
  // Nothing but system calls: other threads of the parent may have held locks.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(128 + SIGTERM);
  if (output >= 0 && (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

ChildProcess::~ChildProcess() {
  if (status()) return;
  kill_group();
  waitpid(process_, nullptr, 0);
}

std::optional<int> ChildProcess::status() {
  int status = 0;
  if (!status_ && waitpid(process_, &status, WNOHANG) == process_) {
    status_ = shell_status(status);
    was_killed_ = WIFSIGNALED(status);
  }
  return status_;
}

void ChildProcess::send(int signal) const {
  if (!status_) kill(process_, signal);
}

void ChildProcess::kill_group() const {
  if (!status_) kill(-process_, SIGKILL);
}

}  // namespace cxtrain
