#include "cxtrain/cluster/watchdog.h"

#include <future>

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("the watchdog barks at a wait that is too long, and names it") {
  std::promise<std::string> barked;
  bool once = false;
  Watchdog watchdog([&](const char* operation, double seconds) {
    if (!std::exchange(once, true))
      barked.set_value(std::string(operation) + (seconds > 0.3 ? " long" : " short"));
  });
  watchdog.set_timeout(0.3);
  auto result = barked.get_future();
  const Watchdog::Wait wait(watchdog, "all_reduce");
  REQUIRE(result.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  CHECK(result.get() == "all_reduce long");
}

TEST_CASE("the watchdog is silent about waits that end, and between them") {
  std::atomic<int> barks = 0;
  Watchdog watchdog([&](const char*, double) { ++barks; });
  watchdog.set_timeout(60);
  for (int i = 0; i < 1000; ++i) const Watchdog::Wait wait(watchdog, "barrier");
  watchdog.set_timeout(0);  // any wait is too long now, but there is none
  std::promise<void> never;
  never.get_future().wait_for(std::chrono::milliseconds(600));
  CHECK(barks == 0);
}

}  // namespace
}  // namespace cxtrain
