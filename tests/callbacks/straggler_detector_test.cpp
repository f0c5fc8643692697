#include "cxtrain/callbacks/stragglers.h"

#include <random>
#include <vector>

#include "support/catch.h"

namespace cxtrain {
namespace {

/// Ranks whose steps take 100 ms, more or less.
class NoisyRanks {
 public:
  /// `rare`: one step in so many takes several times as long.
  NoisyRanks(std::size_t ranks, double jitter, unsigned rare, unsigned seed)
      : factors(ranks, 1.0), jitter_(1.0, jitter), rare_(rare), random_(seed) {}

  /// What each rank tells of its next window of five steps.
  std::vector<double> window() {
    std::vector<double> told;
    for (const double factor : factors) {
      std::vector<double> steps(5);
      for (double& step : steps) {
        step = 0.1 * factor * std::max(0.5, jitter_(random_));
        if (random_() % rare_ == 0) step *= 4;
      }
      told.push_back(typical_step(steps));
    }
    return told;
  }

  std::vector<double> factors;  ///< of each rank's steps

 private:
  std::normal_distribution<double> jitter_;
  unsigned rare_;
  std::mt19937 random_;
};

TEST_CASE("ten thousand noisy steps of ranks alike raise no alarm") {
  const std::size_t ranks = GENERATE(2, 3, 8, 64);
  const unsigned seed = GENERATE(1, 2, 3);
  NoisyRanks run(ranks, 0.08, /*rare=*/50, seed);
  StragglerDetector detector;
  int alarms = 0;
  for (int window = 0; window < 2000; ++window) alarms += detector.add(run.window()) ? 1 : 0;
  CHECK(alarms == 0);
}

TEST_CASE(
    "a rank that is a fifth slower is found within 20 steps, and told of once for as long as it lasts") {
  const std::size_t ranks = GENERATE(2, 3, 8, 64);
  const unsigned seed = GENERATE(1, 2, 3);
  NoisyRanks run(ranks, 0.03, /*rare=*/200, seed);
  StragglerDetector detector;
  const auto first_alarm = [&](int windows) -> std::optional<StragglerDetector::Straggler> {
    for (int window = 0; window < windows; ++window) {
      if (const auto found = detector.add(run.window())) return found;
    }
    return std::nullopt;
  };
  CHECK_FALSE(first_alarm(100));
  run.factors[1] = 1.2;
  const auto found = first_alarm(4);
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(found->seconds == Catch::Approx(1.2 * found->others_seconds).epsilon(0.05));
  CHECK_FALSE(first_alarm(400));
  run.factors[1] = 1;
  CHECK_FALSE(first_alarm(100));
  run.factors[0] = 1.3;
  const auto another = first_alarm(4);
  REQUIRE(another);
  CHECK(another->rank == 0);
}

TEST_CASE("what costs less than a millisecond a step is not told") {
  StragglerDetector detector;
  for (int window = 0; window < 20; ++window) CHECK_FALSE(detector.add(std::vector{0.001, 0.0019}));
}

TEST_CASE("a typical step leaves out the longest two fifths") {
  CHECK(typical_step(std::vector{3.0, 100.0, 1.0, 2.0, 1.5}) == 1.5);
  CHECK(typical_step(std::vector{5.0}) == 5);
}

}  // namespace
}  // namespace cxtrain
