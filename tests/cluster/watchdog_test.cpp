#include "cxtrain/cluster/watchdog.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "cxtrain/base/stop_signals.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

using Cause = Watchdog::Cause;

TEST_CASE("the watchdog raises an alarm for a wait that is too long, and names it") {
  std::promise<std::string> raised;
  bool once = false;
  Watchdog watchdog(0.3, [&](Cause cause, const char* operation, double seconds) {
    if (!std::exchange(once, true))
      raised.set_value(std::string(operation) + (cause == Cause::deadline && seconds > 0.3 ? " late" : ""));
  });
  auto result = raised.get_future();
  const Watchdog::Wait wait(watchdog, "all_reduce");
  REQUIRE(result.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  CHECK(result.get() == "all_reduce late");
}

TEST_CASE("the watchdog is silent about waits that end, and between them") {
  std::atomic<int> alarms = 0;
  Watchdog watchdog(60, [&](Cause, const char*, double) { ++alarms; });
  for (int i = 0; i < 1000; ++i) const Watchdog::Wait wait(watchdog, "barrier");
  watchdog.set_timeout(0);  // any wait is too long now, but there is none
  std::promise<void> never;
  never.get_future().wait_for(std::chrono::milliseconds(400));
  CHECK(alarms == 0);
}

TEST_CASE("a wait within a wait is part of it") {
  std::promise<std::string> raised;
  bool once = false;
  Watchdog watchdog(0.3, [&](Cause, const char* operation, double) {
    if (!std::exchange(once, true)) raised.set_value(operation);
  });
  auto result = raised.get_future();
  const Watchdog::Wait outer(watchdog, "outer");
  { const Watchdog::Wait inner(watchdog, "inner"); }
  REQUIRE(result.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  CHECK(result.get() == "outer");
}

TEST_CASE("a wait does not end while the watchdog raises an alarm") {
  std::promise<void> raised;
  std::atomic<bool> done = false, once = false;
  Watchdog watchdog(0, [&](Cause, const char*, double) {
    if (once.exchange(true)) return;
    raised.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    done = true;
  });
  {
    const Watchdog::Wait wait(watchdog, "barrier");
    raised.get_future().wait();
  }
  CHECK(done);
}

TEST_CASE("the watchdog tells once of a signal that finds its process waiting") {
  const pid_t child = fork();
  if (child == 0) {
    const StopSignals signals;
    std::atomic<int> told = 0;
    Watchdog watchdog(3600,
                      [&](Cause cause, const char*, double) { told += cause == Cause::signal ? 1 : 100; });
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
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // in which the watchdog has seen the wait
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

/// Work whose state the test sets.
class Device final : public PendingWork {
 public:
  explicit Device(State state) : state_(std::move(state)) {}
  void become(State state) {
    const std::lock_guard lock(mutex_);
    state_ = std::move(state);
  }
  State look() noexcept override {
    const std::lock_guard lock(mutex_);
    ++looks;
    return state_;
  }
  std::atomic<int> looks = 0;

 private:
  std::mutex mutex_;
  State state_;
};

/// The first alarm, as "<operation>" or "error: <text>"; "" after half a minute without one.
std::string alarm_about(
    Device& device, double timeout, const std::function<void()>& meanwhile = [] {}) {
  std::promise<std::string> raised;
  std::atomic<bool> once = false;
  Watchdog watchdog(timeout, [&](Cause cause, const char* operation, double) {
    if (!once.exchange(true))
      raised.set_value((cause == Cause::error ? "error: " : "") + std::string(operation));
  });
  watchdog.watch(device);
  meanwhile();
  auto result = raised.get_future();
  const bool came = result.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  watchdog.forget(device);
  return came ? result.get() : "";
}

TEST_CASE("the watchdog raises an alarm for work on a device that does not end, though no thread waits") {
  Device device({.operation = "an all-reduce on the GPU", .number = 7});
  CHECK(alarm_about(device, 0.3) == "an all-reduce on the GPU");
}

TEST_CASE("the watchdog tells at once what has gone wrong in the background") {
  Device device({.operation = "an all-reduce on the GPU", .number = 1});
  CHECK(alarm_about(device, 1e6, [&] { device.become({.error = "the link is down"}); }) ==
        "error: the link is down");
}

TEST_CASE("each operation of watched work has the whole time, and none that is forgotten is looked at") {
  std::atomic<int> alarms = 0;
  Watchdog watchdog(3, [&](Cause, const char*, double) { ++alarms; });
  Device device({.operation = "send", .number = 1});
  watchdog.watch(device);
  const auto looked = [&](int times) {
    const int before = device.looks;
    while (device.looks < before + times) std::this_thread::yield();
  };
  for (std::uint64_t number = 2; number < 6; ++number) {
    looked(10);  // a second, in which it has not ended
    device.become({.operation = "send", .number = number});
  }
  CHECK(alarms == 0);
  watchdog.forget(device);
  watchdog.forget(device);
  const int before = device.looks;
  std::promise<void> never;
  never.get_future().wait_for(std::chrono::milliseconds(300));
  CHECK(device.looks == before);
}

}  // namespace
}  // namespace cxtrain
