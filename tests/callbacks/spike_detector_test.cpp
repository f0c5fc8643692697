#include "cxtrain/callbacks/loss_spike.h"

#include <cmath>
#include <limits>
#include <random>

#include "support/catch.h"

namespace cxtrain {
namespace {

/// A loss that falls, with noise of many kinds.
class Losses {
 public:
  Losses(unsigned seed, double noise) : random_(seed), noise_(noise) {}
  double next() {
    ++step_;
    const double level = 0.1 + 3 / std::sqrt(1.0 + 0.05 * step_);
    return level * std::exp(noise_ * normal_(random_));
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_{0, 1};
  double noise_;
  int step_ = 0;
};

TEST_CASE("a loss that falls and trembles is no spike", "[spike]") {
  const double noise = GENERATE(0.0, 0.01, 0.1, 0.5);
  for (unsigned seed = 0; seed < 5; ++seed) {
    SpikeDetector detector({});
    Losses losses(seed, noise);
    int spikes = 0;
    for (int step = 0; step < 10'000; ++step) spikes += detector.add(losses.next()).has_value();
    CAPTURE(noise, seed);
    CHECK(spikes == 0);
  }
}

TEST_CASE("a loss that explodes is a spike at its third step, once", "[spike]") {
  const double noise = GENERATE(0.0, 0.1, 0.3);
  const double explosion =
      GENERATE(20.0, 1e30, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN());
  SpikeDetector detector({});
  Losses losses(3, noise);
  for (int step = 0; step < 300; ++step) REQUIRE_FALSE(detector.add(losses.next()));
  // Odd batches are none.
  CHECK_FALSE(detector.add(explosion));
  CHECK_FALSE(detector.add(explosion));
  CHECK_FALSE(detector.add(losses.next()));
  CHECK_FALSE(detector.add(explosion));
  CHECK_FALSE(detector.add(explosion));
  const auto spike = detector.add(explosion);
  REQUIRE(spike);
  CHECK(spike->losses == 3);
  CHECK(spike->usual < 3);
  for (int step = 0; step < 50; ++step) CHECK_FALSE(detector.add(explosion));
}

TEST_CASE("a loss that stays where it went has become usual", "[spike]") {
  SpikeDetector detector({.window = 20});
  for (int step = 0; step < 100; ++step) REQUIRE_FALSE(detector.add(1 + 0.01 * (step % 5)));
  int spikes = 0;
  for (int step = 0; step < 100; ++step) spikes += detector.add(9 + 0.01 * (step % 5)).has_value();
  CHECK(spikes == 1);
  for (int step = 0; step < 2; ++step) CHECK_FALSE(detector.add(90));
  CHECK(detector.add(90));
}

}  // namespace
}  // namespace cxtrain
