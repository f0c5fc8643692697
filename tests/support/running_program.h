#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/run_program.h"
#include "support/temp_dir.h"

namespace cxtrain::test {

/// Whether something comes true within `seconds`, looked at so often.
inline bool becomes_true(const std::function<bool()>& condition, int seconds = 60,
                         std::chrono::milliseconds every = std::chrono::milliseconds(10)) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(every);
  }
  return true;
}

/// A command that runs beside the test, in a process group of its own, as a shell starts it in the
/// foreground: with signals at their defaults.
class RunningProgram {
 public:
  explicit RunningProgram(const std::string& command) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2})
        std::signal(signal, SIG_DFL);
      dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      execl("/bin/sh", "sh", "-c", ("exec " + in_shell(command)).c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  ~RunningProgram() {
    kill(-process_, SIGKILL);
    if (!ended_) waitpid(process_, nullptr, 0);
    close(output_);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t process() const { return process_; }
  void send(int signal) const { kill(process_, signal); }
  /// Whether it has ended; `wait` tells how.
  bool has_ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }

  /// Until it has ended and nobody writes any more; status 124 when that takes longer than `deadline`
  /// seconds.
  ProgramResult wait(int deadline = 60) {
    const auto begin = std::chrono::steady_clock::now();
    const auto end = begin + std::chrono::seconds(deadline);
    ProgramResult result;
    for (std::array<char, 4096> buffer;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd source{output_, POLLIN, 0};
      if (left.count() <= 0 || poll(&source, 1, static_cast<int>(left.count())) <= 0) {
        result.status = 124;
        return result;
      }
      const ssize_t bytes = read(output_, buffer.data(), buffer.size());
      if (bytes <= 0) break;
      result.output.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
    int status = 0;
    waitpid(process_, &status, 0);
    ended_ = true;
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  pid_t process_ = -1;
  int output_ = -1;
  bool ended_ = false;
};

/// The processes of cxtrain_mpi whose command line names the folder; those that start others are among them.
inline std::vector<pid_t> processes_of(const TempDir& dir) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string words = slurp(entry.path() / "cmdline");
    if (words.starts_with(CXTRAIN_BIN_DIR) && words.find(dir.path()) != std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

/// What a process was started with; empty where it has ended.
inline std::string environment_of(pid_t process) {
  return slurp("/proc/" + std::to_string(process) + "/environ");
}

/// The process that is this rank of a job whose command line names the folder; 0: none.
inline pid_t process_of_rank(const TempDir& dir, int rank) {
  const std::string variable = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0';
  for (const pid_t process : processes_of(dir)) {
    if (environment_of(process).find(variable) != std::string::npos) return process;
  }
  return 0;
}

inline pid_t wait_for_rank(const TempDir& dir, int rank) {
  pid_t process = 0;
  if (!becomes_true([&] { return (process = process_of_rank(dir, rank)) != 0; })) {
    throw std::runtime_error("no rank " + std::to_string(rank));
  }
  return process;
}

/// Whether the run in this folder has written rows of metrics.
inline bool has_rows(const TempDir& dir) {
  std::error_code missing;
  return std::filesystem::file_size(dir.path() + "/cxtrain_logs/version_0/metrics.csv", missing) > 0 &&
         !missing;
}

}  // namespace cxtrain::test
