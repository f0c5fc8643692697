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

/// Reads what a child writes, and waits for its end. A child that has not ended after `seconds` is killed.
ChildAnswer await(pid_t child, const FileDescriptor& output, double seconds) {
  using Clock = std::chrono::steady_clock;
  const SteadyTime deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  ChildAnswer answer;
  answer.in_time = read_to_end(output.get(), deadline, answer.text) && ends_before(child, deadline);
  if (!answer.in_time) kill(child, SIGKILL);
  while (waitpid(child, &answer.wait_status, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
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
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
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
  ChildAnswer answer = await(process, output, seconds);
  return {shell_status(answer.wait_status), std::move(answer.text)};
}

std::optional<ChildAnswer> answer_of_child(const std::function<std::string()>& work, double seconds) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const FileDescriptor output(ends[0]);
  FileDescriptor input(ends[1]);
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    write_all(input.get(), work());
    _exit(0);
  }
  input.reset();
  return await(child, output, seconds);
}

void become_command(std::span<const std::string> words) {
  const std::vector<char*> argv = argument_vector(words);
  std::cout.flush();
  execvp(argv[0], argv.data());
  cannot_start(words[0], errno);
}

}  // namespace cxtrain
