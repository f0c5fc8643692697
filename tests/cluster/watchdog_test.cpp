#include "cxtrain/cluster/watchdog.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <string>
#include <thread>

#include "cxtrain/base/stop_signals.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

using Cause = Watchdog::Cause;

TEST_CASE("the watchdog barks at a wait that is too long, and names it") {
  std::promise<std::string> barked;
  bool once = false;
  Watchdog watchdog(0.3, [&](Cause cause, const char* operation, double seconds) {
    if (!std::exchange(once, true))
      barked.set_value(std::string(operation) + (cause == Cause::deadline && seconds > 0.3 ? " late" : ""));
  });
  auto result = barked.get_future();
  const Watchdog::Wait wait(watchdog, "all_reduce");
  REQUIRE(result.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  CHECK(result.get() == "all_reduce late");
}

TEST_CASE("the watchdog is silent about waits that end, and between them") {
  std::atomic<int> barks = 0;
  Watchdog watchdog(60, [&](Cause, const char*, double) { ++barks; });
  for (int i = 0; i < 1000; ++i) const Watchdog::Wait wait(watchdog, "barrier");
  watchdog.set_timeout(0);  // any wait is too long now, but there is none
  std::promise<void> never;
  never.get_future().wait_for(std::chrono::milliseconds(400));
  CHECK(barks == 0);
}

TEST_CASE("a wait within a wait is part of it") {
  std::promise<std::string> barked;
  bool once = false;
  Watchdog watchdog(0.3, [&](Cause, const char* operation, double) {
    if (!std::exchange(once, true)) barked.set_value(operation);
  });
  auto result = barked.get_future();
  const Watchdog::Wait outer(watchdog, "outer");
  { const Watchdog::Wait inner(watchdog, "inner"); }
  REQUIRE(result.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  CHECK(result.get() == "outer");
}

TEST_CASE("a wait does not end while the watchdog barks") {
  std::promise<void> barking;
  std::atomic<bool> done = false, once = false;
  Watchdog watchdog(0, [&](Cause, const char*, double) {
    if (once.exchange(true)) return;
    barking.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    done = true;
  });
  {
    const Watchdog::Wait wait(watchdog, "barrier");
    barking.get_future().wait();
  }
  CHECK(done);
}

TEST_CASE("the watchdog tells once of a signal that finds its process waiting") {
  const pid_t child = fork();
  if (child == 0) {
    const StopSignals signals;
    std::atomic<int> told = 0;
    Watchdog watchdog(3600, [&](Cause cause, const char*, double) { told += cause == Cause::signal ? 1 : 100; });
    const Watchdog::Wait wait(watchdog, "barrier");
    raise(SIGTERM);
    for (int i = 0; i < 3000 && told == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    _exit(told);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("time in which the process is stopped does not count as waiting") {
  const pid_t child = fork();
  if (child == 0) {
    Watchdog watchdog(2.5, [](Cause, const char*, double) { _exit(1); });
    const Watchdog::Wait wait(watchdog, "barrier");
    raise(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  REQUIRE(WIFSTOPPED(status));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  kill(child, SIGCONT);
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace cxtrain
