#include "cxtrain/trainer/profile.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "cxtrain/base/json_fields.h"
#include "support/catch.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

/// A rank that has taken 100 steps; in each so long for the data, and for the forward pass.
RankReport rank_with(int rank, double data, double uncounted = 0, double forward = 0.002,
                     std::vector<double> work = {}) {
  RankProfile profile{.rank = rank, .host = "n" + std::to_string(rank), .steps = 100};
  for (std::size_t i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    const double step = phase == Phase::data ? data : phase == Phase::forward ? forward : 0;
    profile.phases.push_back({phase, 100 * step, {step, step / 2, 2 * step}});
    profile.step.mean += step;
    profile.step.median += step / 2;
    profile.step.p95 += 2 * step;
  }
  profile.uncounted = uncounted;
  profile.seconds = 100 * profile.step.mean + uncounted;
  return {profile, std::move(work)};
}

TEST_CASE("mean, median and 95th percentile of steps", "[trainer]") {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  const StepTimes found = step_times(times, 6000, 120);  // 20 steps are no longer kept
  CHECK(found.mean == 50);
  CHECK(found.median == 50);
  CHECK(found.p95 == 95);
  CHECK(step_times({3}, 3, 1).p95 == 3);
  CHECK(step_times({}, 3, 0).mean == 0);
}

TEST_CASE("a summary names the slowest rank of each phase", "[trainer]") {
  const Profile profile = summary_of({rank_with(0, 0.001), rank_with(1, 0.009), rank_with(2, 0.002)});
  CHECK(profile.steps == 100);
  CHECK(profile.seconds == Approx(1.1));
  REQUIRE(profile.phases.size() == 2);  // the others took no time
  const PhaseSummary& data = profile.phases[0];
  CHECK(data.phase == Phase::data);
  CHECK(data.step.mean == Approx(0.004));
  CHECK(data.step.median == Approx(0.002));
  CHECK(data.step.p95 == Approx(0.008));
  CHECK(data.share == Approx(12.0 / 18));
  CHECK(data.slowest_rank == 1);
  CHECK(data.slowest_host == "n1");
  CHECK(data.slowest_mean == Approx(0.009));
  CHECK(profile.phases[1].slowest_rank == 0);  // the first of equal ones
}

TEST_CASE("the longest work of a step may be another rank's in each step", "[trainer]") {
  const Profile profile = summary_of({rank_with(0, 0.001, 0, 0.002, {1, 9, 3, 4}),  // one more step
                                      rank_with(1, 0.001, 0, 0.002, {5, 2, 4})});
  CHECK(profile.longest_work == 5);
  CHECK(summary_of({rank_with(0, 0.001)}).longest_work == 0);
}

TEST_CASE("the table of a profile", "[trainer]") {
  const Profile profile = summary_of({rank_with(0, 0.001), rank_with(1, 0.019)});
  CHECK(to_table(profile, /*on_device=*/false) ==
        "where the time went: 100 steps in 2.10 s; ms of a step, mean over 2 ranks\n"
        "  phase     mean  median    p95    share  slowest rank\n"
        "  data     10.00    5.00  20.00   83.3 %  1 on n1: 19.00\n"
        "  forward   2.00    1.00   4.00   16.7 %  0 on n0: 2.00\n"
        "  step     12.00    6.00  24.00  100.0 %");
  const std::string of_one = to_table(summary_of({rank_with(0, 5e-4, 0, 1e-4)}), /*on_device=*/true);
  CHECK_THAT(of_one, test::contains("; us of a step\n") && test::contains("500.0") &&
                         test::contains("times of the hosts") && !test::contains("slowest") &&
                         !test::contains("missing"));
}

TEST_CASE("the table says what is missing in it", "[trainer]") {
  const std::string table =
      to_table(summary_of({rank_with(0, 0.001, 0.002), rank_with(1, 0.002, 0.1)}), /*on_device=*/false);
  CHECK_THAT(table, test::contains("20.0 % of the time of rank 1 on n1 is missing") &&
                        !test::contains("of the time of rank 0"));
}

TEST_CASE("profile.json has the summary and each rank", "[trainer]") {
  const auto json = nlohmann::json::parse(to_json(summary_of({rank_with(0, 0.001), rank_with(1, 0.009)})));
  CHECK(json["steps"] == 100);
  CHECK(json["mean"].get<double>() == Approx(0.007));
  CHECK(json["phases"][0]["phase"] == "data");
  CHECK(json["phases"][0]["slowest_rank"] == 1);
  CHECK(json["ranks"].size() == 2);
  CHECK(json["ranks"][1]["host"] == "n1");
  CHECK(json["ranks"][1]["phases"].size() == kPhases);
  const RankReport sent = rank_with(1, 0.009, 0, 0.002, {0.5, 0.25});
  const auto received = from_message<RankReport>(to_message(sent));
  CHECK(json_of<nlohmann::json>(received) == json_of<nlohmann::json>(sent));
}

TEST_CASE("the replicas of dp work in the phases of their loop", "[trainer]") {
  SoloWorld world;
  Options options = test::quiet("");
  options.trainer.accelerator = "cpu";
  options.trainer.strategy = "dp";
  options.trainer.devices = "2";
  options.trainer.logger = false;
  Trainer trainer(world, options);
  trainer.set_replica_factory([] { return std::make_unique<test::Regression>(); });
  test::Regression model;
  test::ToyData data(96, 12);
  PhaseClock clock;
  trainer.fit(model, data);
  clock.stop();
  CHECK(clock.steps() == 8);
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::hooks}) CHECK(clock.seconds(phase) > 0);
}

}  // namespace
}  // namespace cxtrain
