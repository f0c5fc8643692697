#include "cxtrain/plugin/trial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <initializer_list>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr char kDone = 'd', kThrown = 't';

/// A crash here is an answer: no core file, no report of somebody's handler.
void become_quiet() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT}) {
    std::signal(signal, SIG_DFL);
  }
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const FileDescriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return;
  dup2(nothing.get(), STDOUT_FILENO);
  dup2(nothing.get(), STDERR_FILENO);
}

[[noreturn]] void run(const std::function<void()>& work, int answer) {
  become_quiet();
  std::string text(1, kDone);
  try {
    work();
  } catch (const std::exception& error) {
    text = kThrown + message_of(error);
  } catch (...) {
    text = std::string(1, kThrown) + "an exception that is no std::exception was thrown";
  }
  static_cast<void>(write(answer, text.data(), text.size()));
  _exit(0);
}

/// Until the writer has closed it.
bool read_all(int file, std::string& text) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (std::array<char, 4096> buffer;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd source{file, POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : poll(&source, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t bytes = read(file, buffer.data(), buffer.size());
    if (bytes == 0) return true;
    if (bytes > 0) text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
}

}  // namespace

std::string try_in_child(const std::function<void()>& work) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};  // untried is better than refused
  const FileDescriptor reads(ends[0]);
  FileDescriptor writes(ends[1]);
  const pid_t child = fork();
  if (child == 0) run(work, writes.get());
  if (child < 0) return {};
  writes.reset();
  std::string answer;
  const bool came_back = read_all(reads.get(), answer);
  if (!came_back) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!came_back) return "did not come back within " + std::to_string(kPatience.count()) + " s";
  if (!answer.empty() && answer[0] == kThrown) return answer.substr(1);
  if (!answer.empty()) return {};
  if (!WIFSIGNALED(status)) return "ended the process with status " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "crashed with signal " + std::to_string(signal) + " (" + strsignal(signal) + ")" +
         (signal == SIGABRT ? ": an assertion, or an exception that nobody caught" : "");
}

}  // namespace cxtrain
