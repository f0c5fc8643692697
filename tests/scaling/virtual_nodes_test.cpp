#include "virtual_nodes.h"

#include <algorithm>
#include <cmath>

#include "cxtrain/comm/between_nodes/node_network.h"
#include "cxtrain/scaling/analysis.h"
#include "cxtrain/scaling/prediction.h"
#include "support/catch.h"
#include "support/error_text.h"

/// Predictions against a truth that is known: nodes in virtual time, with the exchanges of real ones.
namespace cxtrain {
namespace {

struct VirtualStudy {
  test::VirtualTraining training;
  ScalingMode mode = ScalingMode::weak;

  /// The work of a rank, which is divided among the ranks in the mode `strong`.
  test::VirtualTraining of(int nodes, std::uint64_t seed) const {
    test::VirtualTraining each = training;
    each.seed = seed;
    if (mode == ScalingMode::weak) return each;
    each.forward /= nodes;
    each.backward /= nodes;
    return each;
  }
};

/// Draws a study. Backward is as long as 0.5 to 8 times the way of the gradients. Sizes of chunks and buckets
/// are those that the program chooses for the links.
VirtualStudy drawn_study(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  VirtualStudy study;
  test::VirtualTraining& training = study.training;
  study.mode = seed % 2 == 0 ? ScalingMode::weak : ScalingMode::strong;
  training.overlap = seed / 2 % 2 == 0;
  training.network.bytes_per_second = seed / 4 % 2 == 0 ? 125e6 : 1.25e9;
  training.jitter = seed / 8 % 2 == 0 ? 0.01 : 0.05;
  const double speed = training.network.bytes_per_second;
  training.bytes = static_cast<std::size_t>(between(1, 16) * std::sqrt(speed / 1.25e9) * 1e6);
  training.chunk_bytes = chunk_for(speed);
  training.buckets =
      std::max(1, static_cast<int>(training.bytes / static_cast<std::size_t>(message_for(speed))));
  const double wire = 2 * static_cast<double>(training.bytes) / speed;
  training.backward = wire * std::exp2(between(-1, 3));
  training.forward = training.backward / 2;
  training.optimizer = training.backward * between(0, 0.2);
  if (study.mode == ScalingMode::strong) {
    training.backward *= 4;
    training.forward *= 4;
  }
  return study;
}

struct Effort {
  int rounds = 3, steps = 30;
};

/// A study of this many nodes, each with one rank.
StudyResult measured_study(const VirtualStudy& study, const std::vector<int>& sizes, std::uint64_t seed,
                           const Effort& effort) {
  StudyResult result;
  result.study.mode = study.mode;
  result.study.rounds = effort.rounds;
  std::vector<Measurement> points;
  for (const int nodes : sizes) {
    result.study.sizes.push_back({nodes, nodes});
    for (int round = 1; round <= effort.rounds; ++round) {
      test::VirtualNodes cluster(study.of(nodes, 1000 * seed + static_cast<std::uint64_t>(round)), nodes);
      Measurement point = cluster.train(effort.steps);
      point.size = {nodes, nodes};
      point.exchange.seconds = test::VirtualNodes::exchanges_alone(study.training, nodes);
      point.exchange.bytes = nodes == 1 ? 0 : static_cast<std::int64_t>(study.training.bytes);
      point.round = round;
      point.samples_per_step = study.mode == ScalingMode::weak ? 32 * nodes : 64;
      points.push_back(point);
    }
  }
  return analyse(result, points);
}

TEST_CASE("nodes in virtual time sum what real nodes sum, in the time that bytes take", "[scaling]") {
  const test::VirtualTraining training{.network = {.bytes_per_second = 1e8, .latency = 0, .overhead = 0},
                                       .bytes = 4 * 65536,
                                       .moves_values = true,
                                       .overlap = false};
  for (const int count : {2, 3, 8}) {
    test::VirtualNodes nodes(training, count);
    const double step = nodes.train(3).step;
    CHECK(nodes.sums_are_right());
    // Each port carries 2 (n - 1) / n of the bytes; the messages of a chunk do not fill it all the time.
    const double wire = 2.0 * (count - 1) / count * static_cast<double>(training.bytes) / 1e8;
    CHECK(step >= training.forward + training.backward + wire * 0.999);
    CHECK(step <= training.forward + training.backward + wire * 1.6);
  }
}

TEST_CASE("predictions of 8 and 16 nodes from 1, 2 and 4 hold for networks that are known", "[scaling]") {
  const auto [effort, largest] =
      GENERATE(std::pair{Effort{}, 0.08}, std::pair{Effort{.rounds = 1, .steps = 8}, 0.1});
  std::vector<double> errors;
  int covered = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const VirtualStudy study = drawn_study(seed);
    const Forecast forecast = predict(measured_study(study, {1, 2, 4}, seed, effort), {8, 16});
    for (const SizeForecast& size : forecast.sizes) {
      if (!size.refusal.empty()) {
        ++refused;
        continue;
      }
      test::VirtualNodes cluster(study.of(size.ranks, 77 * seed + 5), size.ranks);
      const double truth = cluster.train(30).step;
      errors.push_back(std::abs(size.step.value / truth - 1));
      covered += size.step.low <= truth && truth <= size.step.high;
    }
  }
  const double share = static_cast<double>(covered) / static_cast<double>(errors.size());
  CAPTURE(effort.rounds, errors.size(), refused, share);
  CHECK(errors.size() >= 64);
  CHECK(median_of(errors) <= 0.03);
  CHECK(*std::max_element(errors.begin(), errors.end()) <= largest);
  CHECK(share >= 0.9);
}

TEST_CASE("a study on one network is predicted on another one", "[scaling]") {
  std::vector<double> errors;
  int covered = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    VirtualStudy study = drawn_study(seed);
    const StudyResult measured = measured_study(study, {1, 2, 4}, seed, {});
    // Messages keep their size, as if the faster network were the slower one.
    double& speed = study.training.network.bytes_per_second;
    speed *= speed < 5e8 ? 3 : 1.0 / 3;
    const Network other{.name = "other", .bytes_per_second = speed};
    for (const SizeForecast& size : predict(measured, {4, 8}, other).sizes) {
      CAPTURE(seed, size.ranks, size.refusal, size.step.low, size.step.high);
      REQUIRE(size.refusal.empty());
      const double truth = test::VirtualNodes(study.of(size.ranks, 77 * seed + 5), size.ranks).train(30).step;
      errors.push_back(std::abs(size.step.value / truth - 1));
      covered += size.step.low <= truth && truth <= size.step.high;
    }
  }
  CAPTURE(covered);
  CHECK(median_of(errors) <= 0.03);
  CHECK(*std::max_element(errors.begin(), errors.end()) <= 0.12);
  CHECK(covered >= 15);
}

TEST_CASE("another network needs a study that shows exchanges, and sums over nodes", "[scaling]") {
  StudyResult study = measured_study(drawn_study(0), {1, 2, 4}, 0, {});
  for (Measurement& point : study.points) point.exchange = {};
  const Forecast forecast = predict(study, {8}, Network{.name = "other", .bytes_per_second = 1e9});
  CHECK_THAT(forecast.sizes[0].refusal, test::contains("does not show how long exchanges"));

  NetworkTimes times{.ranks = 4, .nodes = 2};
  times.all_reduce = {{1 << 20, 1e-3}, {16 << 20, 16e-3}};
  CHECK(network_of(times).bytes_per_second == Approx((1 << 20) / 1e-3));
  NetworkTimes published{.name = "fast", .source = "a page", .bytes_per_second = 9e9};
  CHECK(network_of(published).bytes_per_second == 9e9);
  CHECK(network_of(published).source == "a page");
  published.bytes_per_second = -1;
  CHECK_THROWS_WITH(network_of(published), test::contains("no sums over several nodes"));
  times.nodes = 1;
  CHECK_THROWS_WITH(network_of(times), test::contains("no sums over several nodes"));
}

// Takes 8 minutes and 3.5 GB: unit_tests "[.thousand_nodes]".
TEST_CASE("1,024 nodes in virtual time are predicted from 64, 128 and 256", "[.thousand_nodes]") {
  VirtualStudy study;
  study.training = {.network = {.bytes_per_second = 1.25e9},
                    .bytes = std::size_t{512} << 10,
                    .buckets = 2,
                    .chunk_bytes = std::size_t{128} << 10,
                    .forward = 0.01,
                    .backward = 0.02,
                    .jitter = 0.02,
                    .optimizer = 0.001};
  const Forecast forecast =
      predict(measured_study(study, {64, 128, 256}, 1, {.rounds = 2, .steps = 3}), {512, 1024});
  for (const SizeForecast& size : forecast.sizes) {
    CAPTURE(size.ranks, size.refusal, size.step.value, size.step.low, size.step.high, forecast.model);
    REQUIRE(size.refusal.empty());
    const double truth = test::VirtualNodes(study.of(size.ranks, 5), size.ranks).train(3).step;
    CAPTURE(truth);
    CHECK(std::abs(size.step.value / truth - 1) <= 0.08);
    CHECK(size.step.low <= truth);
    CHECK(truth <= size.step.high);
  }
}

}  // namespace
}  // namespace cxtrain
