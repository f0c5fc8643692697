#include "cxtrain/cluster/flight_recorder.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cxtrain/base/process.h"
#include "cxtrain/cluster/watchdog.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

using Wait = Watchdog::Wait;

TEST_CASE("a flight recorder has the last waits, newest first, with step, number and what they took") {
  FlightRecorder recorder;
  CHECK(recorder.entries().empty());
  CurrentStep::set(7);
  for (int i = 0; i < 100; ++i) {
    recorder.begin("all_reduce", /*counts=*/true);
    recorder.end();
  }
  CurrentStep::set(8);
  const FlightRecorder::Ticks waited = recorder.waited();
  recorder.begin("send", /*counts=*/false);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  recorder.end();
  const double took = recorder.seconds(recorder.waited() - waited);
  CHECK(took > 0.019);
  CHECK(took < 10);
  recorder.begin("barrier", /*counts=*/true);
  CurrentStep::set(-1);

  const auto entries = recorder.entries();
  REQUIRE(entries.size() == FlightRecorder::kKept);
  CHECK(std::string(entries[0].operation) == "barrier");
  CHECK(entries[0].goes_on);
  CHECK(entries[0].number == 101);
  CHECK(entries[0].step == 8);
  CHECK(std::string(entries[1].operation) == "send");
  CHECK(entries[1].number == 100);  // not every rank goes through it
  CHECK(entries[1].seconds == Catch::Approx(took).epsilon(0.01));
  CHECK_FALSE(entries[1].goes_on);
  CHECK(std::string(entries.back().operation) == "all_reduce");
  CHECK(entries.back().number == 101 - 62);
  CHECK(entries.back().step == 7);
  CHECK(recorder.number() == 101);
  CHECK_THAT(recorder.text(), test::contains("\n  number 101, step 8, barrier: has waited for "));
  const std::string send = "\n  number 100, step 8, send: ";
  REQUIRE_THAT(recorder.text(), test::contains(send));
  const std::string text = recorder.text();
  CHECK(std::stod(text.substr(text.find(send) + send.size())) == Catch::Approx(took).epsilon(0.1));
}

/// Seconds of a wait that nobody is waited for in; the best of several rounds, which others disturb.
double seconds_of_a_wait(Watchdog& watchdog) {
  constexpr int kWaits = 20000;
  double best = 1;
  for (int round = 0; round < 9; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kWaits; ++i) const Wait wait(watchdog, "barrier");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kWaits);
  }
  return best;
}

TEST_CASE("a watchdog records its waits, outer ones only, at a cost that no step notices") {
  Watchdog watchdog(60, [](Watchdog::Cause, const char*, double) {});
  {
    const Wait outer(watchdog, "outer");
    const Wait inner(watchdog, "inner");
    CHECK(watchdog.recorder().entries().size() == 1);
    CHECK(watchdog.recorder().entries()[0].goes_on);
  }
  { const Wait some(watchdog, "some", Wait::Of::some_ranks); }
  CHECK(watchdog.recorder().number() == 1);
  CHECK(watchdog.record().find("number 1, some: ") != std::string::npos);
  const double seconds = seconds_of_a_wait(watchdog);
  CAPTURE(seconds);
  CHECK(seconds < 1e-6);  // below 1e-7 where nothing else runs: docs/reliability.md
}

}  // namespace
}  // namespace cxtrain
