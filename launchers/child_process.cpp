#include "launchers/child_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/kernel_files.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/process_state.h"

namespace cxtrain {
namespace {

/// Children of all threads of a process. Empty where the kernel keeps no list.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code failed;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", failed)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

bool has_dead_children_only(pid_t process) {
  const std::vector<pid_t> children = children_of(process);
  return !children.empty() &&
         std::ranges::all_of(children, [](pid_t child) { return state_letter(child) == 'Z'; });
}

}  // namespace

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

bool is_mpirun(pid_t process) {
  const std::string name = kernel_text("/proc/" + std::to_string(process) + "/comm");
  return name.starts_with("mpirun") || name.starts_with("mpiexec") || name == "orterun" || name == "prterun";
}

void UnreapedChildren::kill_stuck_parent() {
  constexpr std::chrono::seconds kPatience{10};
  const pid_t parent = parent_.id();
  if (is_stopped(parent) || !has_dead_children_only(parent)) return since_.reset();
  if (!since_) since_ = Monotonic::now();
  if (Monotonic::now() - *since_ < kPatience) return;
  log_error(
      with_code("mpirun hangs although all of its ranks have ended: it is killed", MessageCode::rank_lost));
  parent_.kill_group();
}

}  // namespace cxtrain
