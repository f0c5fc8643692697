#include "cxtrain/base/phase_clock.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "support/catch.h"

namespace cxtrain {
namespace {

/// Time passes, by the counter that the clock reads.
void pass_time() {
  const TickClock clock;
  while (clock.now() < 100'000) {
  }
}

using Words = std::set<std::string_view>;

Words phases_with_time(const PhaseClock& clock) {
  Words phases;
  for (std::size_t i = 0; i < kPhases; ++i) {
    if (clock.seconds(static_cast<Phase>(i)) > 0) phases.insert(word_of(static_cast<Phase>(i)));
  }
  return phases;
}

double sum_of_phases(const PhaseClock& clock) {
  double sum = 0;
  for (std::size_t i = 0; i < kPhases; ++i) sum += clock.seconds(static_cast<Phase>(i));
  return sum;
}

TEST_CASE("a phase has the time until the next one begins", "[base]") {
  const TickClock wall;
  const TickClock::Ticks begin = wall.now();
  PhaseClock clock;
  {
    const PhaseScope data(Phase::data);
    pass_time();
    {
      const PhaseScope hooks(Phase::hooks);
      // Longer than all before, however long others have kept this thread from its core.
      const TickClock::Ticks before = wall.now() - begin;
      while (wall.now() - begin < 3 * before) {
      }
    }
  }
  clock.stop();
  CHECK(phases_with_time(clock) == Words{"other", "data", "hooks"});
  CHECK(clock.seconds(Phase::hooks) > clock.seconds(Phase::data));  // which has only its own time
}

TEST_CASE("enter returns the phase to go back to", "[base]") {
  CHECK(PhaseClock::enter(Phase::data) == Phase::other);  // without a clock
  const PhaseClock clock;
  CHECK(PhaseClock::enter(Phase::forward) == Phase::other);
  CHECK(PhaseClock::enter(Phase::backward) == Phase::forward);
  PhaseClock::leave_to(Phase::data);
  CHECK(PhaseClock::enter(Phase::other) == Phase::data);
}

TEST_CASE("what a validation and a checkpoint do counts as theirs", "[base]") {
  const Phase outer = GENERATE(Phase::validation, Phase::checkpoint);
  PhaseClock clock;
  {
    const PhaseScope scope(outer);
    const PhaseScope data(Phase::data);
    PhaseClock::enter(Phase::transfer);
    const PhaseScope checkpoint(Phase::checkpoint);
    pass_time();
  }
  CHECK(PhaseClock::enter(Phase::other) == Phase::other);
  clock.stop();
  CHECK(phases_with_time(clock) == Words{"other", word_of(outer)});
}

TEST_CASE("the phases of all steps add up to the time of the clock", "[base]") {
  const TickClock wall;
  PhaseClock clock;
  const TickClock::Ticks begin = wall.now();
  for (int step = 0; step < 50; ++step) {
    const PhaseScope forward(Phase::forward);
    pass_time();
    PhaseClock::enter(Phase::backward);
    pass_time();
    PhaseClock::end_step();
  }
  pass_time();
  const double seconds = wall.seconds(wall.now() - begin);
  clock.stop();
  CHECK(clock.steps() == 50);
  CHECK(sum_of_phases(clock) == Approx(seconds).epsilon(0.01));
  const std::vector<double> steps = clock.step_seconds(), forward = clock.step_seconds(Phase::forward);
  CHECK(steps.size() == 50);
  double last = 0;  // after the last step
  for (std::size_t i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    const std::vector<double> in_steps = clock.step_seconds(phase);
    last += clock.seconds(phase) - std::accumulate(in_steps.begin(), in_steps.end(), 0.0);
  }
  CHECK(last > 0);
  CHECK(std::accumulate(steps.begin(), steps.end(), last) == Approx(sum_of_phases(clock)).epsilon(0.001));
  for (std::size_t step = 0; step < steps.size(); ++step) CHECK(forward[step] < steps[step]);
}

TEST_CASE("only the last steps are kept, and all are counted", "[base]") {
  PhaseClock clock;
  constexpr std::size_t kMore = 10;
  for (std::size_t step = 0; step < PhaseClock::kKeptSteps + kMore; ++step) {
    { const PhaseScope scope(step < kMore ? Phase::data : Phase::forward); }
    PhaseClock::end_step();
  }
  clock.stop();
  CHECK(clock.steps() == PhaseClock::kKeptSteps + kMore);
  CHECK(clock.step_seconds().size() == PhaseClock::kKeptSteps);
  const auto takes_time = [](double seconds) { return seconds > 0; };
  const std::vector<double> data = clock.step_seconds(Phase::data),
                            forward = clock.step_seconds(Phase::forward);
  CHECK(clock.seconds(Phase::data) > 0);
  CHECK(std::none_of(data.begin(), data.end(), takes_time));
  CHECK(std::all_of(forward.begin(), forward.end(), takes_time));
}

TEST_CASE("a stopped clock keeps its times", "[base]") {
  PhaseClock clock;
  pass_time();
  clock.stop();
  const std::int64_t steps = clock.steps();
  {
    const PhaseScope data(Phase::data);
    PhaseClock::end_step();
  }
  clock.stop();
  CHECK(clock.steps() == steps);
  CHECK(phases_with_time(clock) == Words{"other"});
}

TEST_CASE("a clock rests while another one measures", "[base]") {
  PhaseClock outer;
  PhaseClock::enter(Phase::hooks);
  {
    PhaseClock inner;
    PhaseClock::enter(Phase::forward);
    PhaseClock::end_step();
    inner.stop();
    CHECK(inner.steps() == 1);
  }
  CHECK(PhaseClock::enter(Phase::other) == Phase::hooks);
  outer.stop();
  CHECK(outer.steps() == 0);
  CHECK(outer.seconds(Phase::forward) == 0);
}

std::vector<std::string_view>& seen() {
  static std::vector<std::string_view> phases;
  return phases;
}

TEST_CASE("an observer sees each change", "[base]") {
  seen().clear();
  const PhaseClock clock;
  PhaseClock::observe([](Phase phase) { seen().push_back(word_of(phase)); });
  {
    const PhaseScope data(Phase::data);
    const PhaseScope same(Phase::data);
  }
  PhaseClock::observe(nullptr);
  const PhaseScope after(Phase::hooks);
  CHECK(seen() == std::vector<std::string_view>{"data", "other"});
}

}  // namespace
}  // namespace cxtrain
