#include "cxtrain/base/crash_report.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <thread>

#include "cxtrain/base/process.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace cxtrain {
namespace {

constexpr std::array<int, 5> kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

struct Crashed {
  int signal = 0;  ///< that ended the process
  std::string file, console;
};

/// Runs `work` in a process of its own that reports its crashes, as rank 3 in step 17.
Crashed crash(const std::function<void()>& work) {
  const test::TempDir dir;
  const std::string file = dir.write("rank_3.log", "before\n"), console = dir.write("console", "");
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : kSignals) std::signal(signal, SIG_DFL);  // not the test program's
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(open(console.c_str(), O_WRONLY | O_APPEND), STDERR_FILENO);
    report_crashes(3);
    report_crashes_to(file);
    CurrentStep::set(17);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFSIGNALED(status) ? WTERMSIG(status) : 0, test::slurp(file), test::slurp(console)};
}

const std::string kWho = "error: rank 3 on " + hostname() + ", step 17: crashed by ";

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_CASE("a crash leaves its stack in the log file, a line on the console, and the signal as it was") {
  const int signal = GENERATE(SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT);
  const Crashed crashed = crash([&] { raise(signal); });
  CAPTURE(signal, crashed.file, crashed.console);
  CHECK(crashed.signal == signal);
  CHECK(crashed.file.starts_with("before\n" + kWho));
  CHECK(lines_of(crashed.file) > 4);
  CHECK(crashed.file.find("plain_tests") != std::string::npos);
  CHECK(lines_of(crashed.console) == 1);
  CHECK(crashed.console.starts_with(kWho));
  CHECK(crashed.console.find("in the main thread; its stack is in /") != std::string::npos);
}

TEST_CASE("a crash tells the address, and where the processor was; a call of what is no code, who called") {
  using Function = void (*)();
  const Crashed crashed = crash([] {
    volatile auto nowhere = reinterpret_cast<Function>(std::uintptr_t{0x1230});
    nowhere();
  });
  CAPTURE(crashed.console, crashed.file);
  CHECK(crashed.signal == SIGSEGV);
  CHECK(crashed.file.find("plain_tests") != std::string::npos);
  CHECK(lines_of(crashed.file) > 6);
  CHECK(crashed.console.find("(0x1230, by the instruction at 0x1230)") != std::string::npos);
}

/// Until there is no stack left.
int deeper(volatile int* depth) {
  if (*depth < 0) return 0;
  std::array<volatile char, 4096> frame{};
  *depth = 1;
  frame[0] = 1;
  return deeper(depth) + frame[0];
}

TEST_CASE("what the processor refuses, a stack that overflows and std::terminate in a thread are told") {
  const Crashed wrong = crash([] {
    volatile int* volatile nowhere = nullptr;
    *nowhere = 1;
  });
  CHECK(wrong.signal == SIGSEGV);
  CHECK(wrong.console.starts_with(kWho + "SIGSEGV"));
  const Crashed overflow = crash([] {
    volatile int depth = 0;
    deeper(&depth);
  });
  CHECK(overflow.signal == SIGSEGV);
  CHECK(overflow.console.starts_with(kWho + "SIGSEGV"));
  const Crashed terminated =
      crash([] { std::thread([] { throw std::runtime_error("nobody catches it"); }).join(); });
  CAPTURE(terminated.console, terminated.file);
  CHECK(terminated.signal == SIGABRT);
  CHECK(terminated.console.find(kWho + "SIGABRT") != std::string::npos);
  CHECK(terminated.console.find("in the thread ") != std::string::npos);
  CHECK(lines_of(terminated.file) > 4);
}

TEST_CASE("without a file the stack is on the console; children and signals of others are left alone") {
  const Crashed open = crash([] {
    report_crashes_to("");
    raise(SIGSEGV);
  });
  CHECK(open.file == "before\n");
  CHECK(lines_of(open.console) > 4);
  const Crashed child = crash([] {
    if (fork() == 0) raise(SIGSEGV);
    wait(nullptr);
  });
  CHECK(child.signal == 0);
  CHECK(child.console.empty());
  const Crashed handled = crash([] {
    std::signal(SIGFPE, [](int) { _exit(0); });
    report_crashes(3);
    raise(SIGFPE);
  });
  CHECK(handled.signal == 0);
}

TEST_CASE("a thread finds out where the main thread is") {
  std::atomic<bool> done = false;
  std::string stack;
  std::jthread other([&] {
    stack = stack_of_main_thread(std::chrono::seconds(20));
    done = true;
  });
  while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(stack.starts_with("the main thread is here:\n  "));
  CHECK(lines_of(stack) > 3);
  CHECK(stack.find("plain_tests +0x") != std::string::npos);
}

}  // namespace
}  // namespace cxtrain
