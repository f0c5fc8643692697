#include "cxtrain/base/command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <thread>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

[[noreturn]] void cannot_start(const std::string& program, int error) {
  throw Error(ExitCode::failure, MessageCode::launch_failed,
              "cannot start " + program + ": " + std::strerror(error));
}

/// What posix_spawn is told of the child's descriptors.
class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// Appends what comes until the other end is closed. Returns whether that is before the deadline.
bool read_to_end(int descriptor, SteadyTime deadline, std::string& text) {
  std::array<char, 4096> part{};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd source{descriptor, POLLIN, 0};
    const int ready = poll(&source, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t size = read(descriptor, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return true;
    text.append(part.data(), static_cast<std::size_t>(size));
  }
}

/// Returns whether the process ends before the deadline. The process stays to be waited for.
bool ends_before(pid_t process, SteadyTime deadline) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

std::vector<char*> argument_vector(std::span<const std::string> words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string shell_quoted(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_=./,:@%+").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

int shell_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

CommandEnd run_command(std::span<const std::string> words, double seconds) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) cannot_start(words[0], errno);
  const FileDescriptor output(ends[0]);
  FileDescriptor input(ends[1]);
  FileActions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions.get(), input.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(actions.get(), input.get(), STDERR_FILENO);
  pid_t process = 0;
  const std::vector<char*> argv = argument_vector(words);
  const int error = posix_spawnp(&process, argv[0], actions.get(), nullptr, argv.data(), environ);
  if (error != 0) cannot_start(words[0], error);
  input.reset();
  CommandEnd end;
  const SteadyTime deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  if (!read_to_end(output.get(), deadline, end.output) || !ends_before(process, deadline))
    kill(process, SIGKILL);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  end.status = shell_status(status);
  return end;
}

void become_command(std::span<const std::string> words) {
  const std::vector<char*> argv = argument_vector(words);
  std::cout.flush();
  execvp(argv[0], argv.data());
  cannot_start(words[0], errno);
}

}  // namespace cxtrain
