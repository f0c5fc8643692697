#include "cxtrain/scaling/analysis.h"

#include <cmath>
#include <functional>
#include <random>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/text.h"
#include "cxtrain/scaling/prediction.h"
#include "cxtrain/scaling/study_report.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

using test::contains;

/// Step times of a machine, as a function of the number of ranks.
struct Truth {
  ScalingMode mode = ScalingMode::weak;
  std::function<double(int ranks)> step;
  double noise = 0;
};

std::vector<Measurement> measured(const Truth& truth, const std::vector<int>& sizes, int rounds,
                                  std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, std::max(truth.noise, 1e-12));
  std::vector<Measurement> found;
  for (int round = 1; round <= rounds; ++round) {
    for (const int ranks : sizes) {
      Measurement each{.size = {ranks, 1}, .round = round, .steps = 200};
      each.samples_per_step = truth.mode == ScalingMode::weak ? 32 * ranks : 64;
      each.step = truth.step(ranks) * noise(random);
      each.phases = {{"forward", truth.step(1)}, {"reduce", truth.step(ranks) - truth.step(1)}};
      found.push_back(each);
    }
  }
  return found;
}

StudyResult study(const Truth& truth, const std::vector<int>& sizes, int rounds = 3, std::uint64_t seed = 1) {
  StudyResult result;
  result.study.mode = truth.mode;
  result.study.rounds = rounds;
  for (const int ranks : sizes) result.study.sizes.push_back({ranks, 1});
  return analyse(result, measured(truth, sizes, rounds, seed));
}

double logarithmic(int ranks) { return 0.010 + 0.001 * std::log2(ranks); }

TEST_CASE("speedup and efficiency of weak and strong scaling", "[scaling]") {
  const StudyResult weak = study({.step = logarithmic}, {1, 2, 4});
  CHECK(weak.sizes[2].speedup.value == Approx(4 * 10 / 12.0));
  CHECK(weak.sizes[2].efficiency.value == Approx(10 / 12.0));
  CHECK(weak.sizes[2].samples_per_second == Approx(128 / 0.012));

  const StudyResult strong =
      study({ScalingMode::strong, [](int ranks) { return 0.008 / ranks + 0.002; }}, {2, 4, 8});
  CHECK(strong.sizes[0].efficiency.value == Approx(1));
  CHECK(strong.sizes[2].speedup.value == Approx(6 / 3.0));
  CHECK(strong.sizes[2].efficiency.value == Approx(0.5));
}

TEST_CASE("a machine that becomes slower from round to round does not change a speedup", "[scaling]") {
  std::vector<Measurement> points = measured({.step = logarithmic}, {1, 2, 4}, 4);
  for (Measurement& each : points) each.step *= each.round;
  StudyResult result;
  for (const int ranks : {1, 2, 4}) result.study.sizes.push_back({ranks, 1});
  result = analyse(result, points);
  CHECK(result.sizes[2].efficiency.low == Approx(10 / 12.0));
  CHECK(result.sizes[2].efficiency.high == Approx(10 / 12.0));
  std::reverse(points.begin(), points.end());
  CHECK(text_of_json(json_of(analyse(result, points))) == text_of_json(json_of(result)));
}

TEST_CASE("the recommended size holds 75 % at the lower end of its interval", "[scaling]") {
  const Truth truth{.step = [](int ranks) { return ranks == 8 ? 0.0135 : logarithmic(ranks); }};
  CHECK(recommended_size(study(truth, {1, 2, 4, 8}))->size.ranks == 4);
  const StudyResult bad = study({.step = [](int ranks) { return 0.01 * ranks; }}, {1, 2, 4});
  CHECK(recommended_size(bad)->size.ranks == 1);
  CHECK_THAT(joined(bad.answers, "\n"), contains("No larger size keeps 75 % efficiency"));
}

/// A step of ranks on one node, and of what it consists. Times in ms.
struct Planted {
  double work = 10;  ///< of a rank
  double loading = 0, optimizer = 0, slow_rank = 0, noise = 0, communication = 0;
  double more_work = 0;  ///< of each rank in the larger size
};

/// A study of 1 and 4 ranks in which steps consist of these.
StudyResult study_with(const Planted& planted, ScalingMode mode = ScalingMode::weak, int cores = 0) {
  std::vector<Measurement> points;
  for (int round = 1; round <= 3; ++round) {
    for (const int ranks : {1, 4}) {
      const bool larger = ranks == 4;
      Measurement each{.size = {ranks, 1}, .round = round, .steps = 200};
      each.cores = cores;
      each.samples_per_step = mode == ScalingMode::weak ? 32 * ranks : 64;
      each.loading = planted.loading / 1e3;
      each.usual_work =
          (planted.work + planted.loading + planted.optimizer + (larger ? planted.more_work : 0)) / 1e3;
      each.slowest_work = each.usual_work + (larger ? planted.slow_rank / 1e3 : 0);
      each.slowest_rank = larger ? 3 : 0;
      each.slowest_host = "n7";
      each.longest_work = each.slowest_work + (larger ? planted.noise / 1e3 : 0);
      each.step = each.longest_work + (larger ? planted.communication / 1e3 : 0);
      each.phases = {{"optimizer", planted.optimizer / 1e3}};
      points.push_back(each);
    }
  }
  StudyResult result;
  result.study.mode = mode;
  result.study.sizes = {{1, 1}, {4, 1}};
  return analyse(result, points);
}

/// "noise 5, communication 1": the causes of the larger size, in ms.
std::string causes_in(const StudyResult& result) {
  return joined(result.sizes.back().causes, ", ", [](const Cause& cause) {
    return std::string(word_of(cause.kind)) + " " + std::to_string(std::lround(1e3 * cause.seconds));
  });
}

TEST_CASE("a rank that is the slowest by chance counts as the other ranks do", "[scaling]") {
  std::vector<Measurement> points;
  for (int round = 1; round <= 3; ++round) {
    for (const int ranks : {1, 2}) {
      Measurement each{.size = {ranks, 1}, .round = round, .steps = 200};
      each.samples_per_step = 32 * ranks;
      each.usual_work = each.slowest_work = each.longest_work = 0.1;
      if (ranks == 2) {
        each.usual_work = 0.08;
        each.slowest_work = 0.1;
        each.longest_work = 0.12;
        each.slowest_rank = round % 2;
      }
      each.step = each.longest_work;
      points.push_back(each);
    }
  }
  StudyResult result;
  result.study.sizes = {{1, 1}, {2, 1}};
  CHECK(causes_in(analyse(result, points)) == "noise 30");
}

TEST_CASE("a study names what makes a step longer, and by how much", "[scaling]") {
  CHECK(causes_in(study_with({})).empty());
  CHECK(causes_in(study_with({.communication = 0.2})).empty());  // of no consequence
  CHECK(causes_in(study_with({.loading = 6})) == "loader 6");
  CHECK(causes_in(study_with({.slow_rank = 4})) == "slow_rank 4");
  CHECK(causes_in(study_with({.noise = 4})) == "noise 4");
  CHECK(causes_in(study_with({.communication = 4})) == "communication 4");
  CHECK(causes_in(study_with({.more_work = 5})) == "shared_node 5");
  CHECK(causes_in(study_with({.more_work = 5}, ScalingMode::weak, /*cores=*/2)) == "cores 5");
  CHECK(causes_in(study_with({.slow_rank = 2, .noise = 3, .communication = 4})) ==
        "communication 4, noise 3, slow_rank 2");
  // Ranks that wait for a core are neither slow nor noisy: the others wait for cores, too.
  CHECK(causes_in(study_with({.slow_rank = 2, .noise = 3, .more_work = 5}, ScalingMode::weak, 2)) ==
        "cores 10");
  // Perfect scaling would leave a quarter of the work.
  const Planted strong{.work = 40, .optimizer = 4, .more_work = -30};
  CHECK(causes_in(study_with(strong, ScalingMode::strong)) == "optimizer 3");
  CHECK(causes_in(study_with({.work = 40, .more_work = -25}, ScalingMode::strong)) == "fixed_work 5");

  const std::string answers = joined(study_with({.slow_rank = 4}).answers, "\n");
  CHECK_THAT(answers, contains("With 4 ranks: rank 3 on n7 works 4 ms longer than the others in each round"));
  CHECK_THAT(answers, contains("Without this a step takes 10 ms in place of 14 ms."));

  StudyResult known = study_with({.communication = 4});
  for (Measurement& each : known.points) each.exchange.seconds = each.size.ranks == 1 ? 0 : 0.009;
  CHECK_THAT(joined(analyse(known, known.points).answers, "\n"),
             contains("exchanges between ranks take 4 ms that no work hides (alone they take 9 ms): "));
}

/// A study of 1 and 4 ranks on as many nodes. The larger size has 8 ms of exchanges that no work hides,
/// beside 10 ms of backward.
StudyResult study_of_exchanges(const ExchangeTimes& exchange, double slow_node = 1) {
  StudyResult result = study_with({.communication = 8});
  for (Measurement& each : result.points) {
    each.phases["backward"] = 0.010;
    if (each.size.ranks == 1) continue;
    each.exchange = exchange;
    each.slow_node = SlowNode{.host = "n3", .speed = slow_node};
  }
  return analyse(result, result.points);
}

TEST_CASE("exchanges are divided by what would hide them", "[scaling]") {
  // Of 18 ms that travel beside 10 ms of backward, 8 ms are left.
  const ExchangeTimes beside{.seconds = 0.018, .messages = 90, .last_message = 0, .seconds_in_few = 0.018};
  CHECK(causes_in(study_of_exchanges(beside)) == "communication 8");
  ExchangeTimes small = beside;
  small.seconds_in_few = 0.012;
  small.last_of_few = 0;
  CHECK(causes_in(study_of_exchanges(small)) == "small_messages 6, communication 2");
  CHECK_THAT(joined(study_of_exchanges(small).answers, "\n"),
             contains("gradients travel in 90 messages, which take 18 ms; in few messages they would take "
                      "12 ms, and 6 ms less"));
  small.last_of_few = 1;  // few messages begin when backward has ended
  CHECK(causes_in(study_of_exchanges(small)) == "communication 8");

  CHECK(causes_in(study_of_exchanges(beside, /*slow_node=*/0.7)) == "slow_link 5, communication 3");
  CHECK(causes_in(study_of_exchanges(beside, /*slow_node=*/0.9)) == "communication 8");
  CHECK_THAT(joined(study_of_exchanges(beside, 0.75).answers, "\n"),
             contains("the connections of n3 carry 75 % of the bytes a second"));

  const ExchangeTimes after{.seconds = 0.008,
                            .messages = 2,
                            .last_message = 0.25,
                            .waits_for_backward = true,
                            .seconds_in_few = 0.008};
  CHECK(causes_in(study_of_exchanges(after)) == "no_overlap 6, communication 2");
  CHECK(causes_in(study_of_exchanges({})) == "communication 8");  // by MPI, or on devices
}

TEST_CASE("a slow node is one that is slow in every round", "[scaling]") {
  const ExchangeTimes beside{.seconds = 0.018, .messages = 90, .seconds_in_few = 0.018};
  StudyResult result = study_of_exchanges(beside, 0.5);
  REQUIRE(result.sizes.back().slow_node.has_value());
  result.points.back().slow_node->host = "n4";
  CHECK_FALSE(analyse(result, result.points).sizes.back().slow_node.has_value());
}

TEST_CASE("checkpoints lengthen the mean step, and ranks on the cores of others every step", "[scaling]") {
  StudyResult result = study_with({});
  for (Measurement& each : result.points) {
    each.mean_step = 0.012;
    each.checkpoints = 0.002;
  }
  result = analyse(result, result.points);
  CHECK(causes_in(result) == "checkpoints 2");
  CHECK_THAT(joined(result.answers, "\n"),
             contains("training waits 2 ms of a step, in the mean, for checkpoints") &&
                 contains("a step takes 10 ms in place of 12 ms"));

  const auto bound = [](int without_core, bool suffice) {
    StudyResult study = study_with({.slow_rank = 2, .more_work = 5});
    for (Measurement& each : study.points) {
      if (each.size.ranks == 1) continue;
      each.ranks_without_core = without_core;
      each.cores_suffice = suffice;
    }
    return causes_in(analyse(study, study.points));
  };
  CHECK(bound(1, true) == "binding 7");
  CHECK(bound(1, false) == "cores 7");
  CHECK(bound(0, true) == "shared_node 5, slow_rank 2");
}

TEST_CASE("a rank that is slow in one round only, and a study of an older program, accuse no rank",
          "[scaling]") {
  StudyResult result = study_with({.slow_rank = 4});
  std::vector<Measurement> points = result.points;
  points.back().slowest_rank = 1;
  CHECK(causes_in(analyse(result, points)) == "noise 3");
  for (Measurement& each : points) each.longest_work = 0;
  CHECK(causes_in(analyse(result, points)).empty());
}

TEST_CASE("answers name what is lost, crowded cores and failures", "[scaling]") {
  std::vector<Measurement> points = measured({.step = logarithmic}, {1, 2}, 2);
  for (Measurement& each : points) each.usual_work = each.size.ranks == 2 ? 0.011 : 0.010;
  Measurement lost{.size = {4, 1}, .round = 1};
  lost.failure = "exit status 1";
  points.push_back(lost);
  for (Measurement& each : points) each.cores = 2;
  StudyResult result;
  result.study.sizes = {{1, 1}, {2, 1}, {4, 1}};
  std::string answers = joined(analyse(result, points).answers, "\n");
  CHECK_THAT(answers,
             contains("From 1 to 2 ranks a step loses 1 ms of 11 ms: 1 ms in reduce, where ranks wait"));
  CHECK_THAT(answers, contains("measured 2 times only"));
  CHECK_THAT(answers, contains("With 4 ranks 1 training failed: round 1: exit status 1"));
  CHECK(answers.find("cores") == std::string::npos);

  for (Measurement& each : points) each.cores = 1;
  answers = joined(analyse(result, points).answers, "\n");
  CHECK_THAT(answers, contains("2 ranks of a node share 1 core, and their work takes 1 ms longer"));
}

TEST_CASE("a prediction finds the law of a machine", "[scaling]") {
  struct Law {
    ScalingMode mode;
    std::function<double(int)> step;
  };
  const std::vector<Law> laws{
      {ScalingMode::weak, logarithmic},
      {ScalingMode::weak, [](int n) { return 0.02 + 0.008 * (1 - 1.0 / n); }},
      {ScalingMode::weak, [](int n) { return 0.02 + 0.0002 * (n - 1); }},
      {ScalingMode::weak, [](int n) { return 0.38 + std::max(0.0, 0.276 * (1 - 1.0 / n) - 0.109); }},
      {ScalingMode::weak, [](int n) { return 0.1 + std::max(0.0, 0.02 * std::log2(n) - 0.013); }},
      {ScalingMode::strong, [](int n) { return 0.1 / n + 0.002; }},
      {ScalingMode::strong, [](int n) { return 0.1 / n + 0.0007 * std::log2(n); }},
  };
  int covered = 0, all = 0;
  std::vector<double> errors;
  for (const Law& law : laws) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const StudyResult result = study({law.mode, law.step, 0.005}, {1, 2, 4}, 5, seed);
      const Forecast forecast = predict(result, {8, 16});
      for (const SizeForecast& each : forecast.sizes) {
        if (!each.refusal.empty()) continue;
        const double truth = law.step(each.ranks);
        errors.push_back(std::abs(each.step.value / truth - 1));
        covered += each.step.low <= truth && truth <= each.step.high ? 1 : 0;
        ++all;
      }
    }
  }
  CHECK(median_of(errors) < 0.03);
  CHECK(covered >= 0.9 * all);
}

/// Tokens a second of a published study: the training is the same on each GPU.
struct PublishedStudy {
  const char* model;
  std::vector<std::pair<int, double>> tokens_per_second;  ///< by GPUs
};

/// A study of all sizes but the last one, each measured once.
StudyResult without_last(const PublishedStudy& published) {
  StudyResult result;
  std::vector<Measurement> points;
  for (std::size_t i = 0; i + 1 < published.tokens_per_second.size(); ++i) {
    const auto [gpus, rate] = published.tokens_per_second[i];
    result.study.sizes.push_back({gpus, gpus / 8});
    Measurement each{.size = result.study.sizes.back(), .round = 1, .steps = 200};
    each.samples_per_step = gpus;
    each.step = gpus / rate;
    points.push_back(each);
  }
  return analyse(result, points);
}

TEST_CASE("sizes of published studies are predicted better than by perfect scaling", "[scaling]") {
  // github.com/mosaicml/llm-foundry, scripts/train/benchmarking (2025-07): FSDP, 2,048 tokens a sequence, one
  // micro-batch a step.
  const std::vector<PublishedStudy> published{
      {"125m, A100", {{16, 2088560}, {32, 4067922}, {64, 8015010}, {128, 15863837}}},
      {"350m, A100", {{16, 886622}, {32, 1721978}, {64, 3372118}, {128, 6647647}}},
      {"760m, A100", {{16, 473723}, {32, 948745}, {64, 1878030}, {128, 3704382}}},
      {"13b, H100", {{8, 38336}, {16, 76280}, {32, 153960}, {64, 307209}}},
  };
  double error = 0, naive_error = 0;
  int covered = 0;
  for (const PublishedStudy& each : published) {
    const auto [smallest, rate] = each.tokens_per_second.front();
    const auto [gpus, truth] = each.tokens_per_second.back();
    const SizeForecast forecast = predict(without_last(each), {gpus}).sizes[0];
    CAPTURE(each.model, forecast.refusal);
    REQUIRE(forecast.refusal.empty());
    const double predicted = forecast.samples_per_second, perfect = rate * gpus / smallest;
    CAPTURE(predicted, perfect, truth, forecast.step.low, forecast.step.high);
    CHECK(std::abs(predicted / truth - 1) < 0.03);
    error += std::abs(predicted / truth - 1);
    naive_error += std::abs(perfect / truth - 1);
    covered += gpus / forecast.step.high <= truth && truth <= gpus / forecast.step.low ? 1 : 0;
  }
  CAPTURE(error / 4, naive_error / 4);
  CHECK(error <= naive_error / 3);
  CHECK(covered == 4);
}

TEST_CASE("a published study with an outlier is refused", "[scaling]") {
  const PublishedStudy published{"1b, A100", {{16, 305372}, {32, 497782}, {64, 1216104}, {128, 2386897}}};
  CHECK_THAT(predict(without_last(published), {128}).sizes[0].refusal, contains("predicts its own sizes"));
}

TEST_CASE("a prediction that nobody should trust is refused with the reason", "[scaling]") {
  CHECK_THAT(predict(study({.step = logarithmic}, {1, 2}), {8}).sizes[0].refusal,
             contains("needs three measured sizes, and the study has 2"));
  CHECK_THAT(predict(study({.step = logarithmic}, {1, 2, 4}), {65}).sizes[0].refusal,
             contains("16 times the largest measured size, 4"));
  const Truth odd{.step = [](int ranks) { return ranks == 2 ? 0.02 : 0.01; }};
  CHECK_THAT(predict(study(odd, {1, 2, 4}), {8}).sizes[0].refusal, contains("predicts its own sizes"));
}

TEST_CASE("reports follow from scaling.json alone, and take any text", "[scaling]") {
  StudyResult result = study({.step = logarithmic}, {1, 2, 4});
  result.study.options = {"--data.path", "a <b> & \"c\"", "--model", "mnist"};
  result.program = "cxtrain <script>";
  const auto read = parse_struct<StudyResult>(text_of_json(json_of(result)));
  REQUIRE(read);
  CHECK(to_html(*read) == to_html(result));
  CHECK(to_markdown(*read) == to_markdown(result));
  const std::string page = to_html(result);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("http:") == std::string::npos);
  CHECK_THAT(page, contains("a &lt;b&gt; &amp; &quot;c&quot;") || contains("a &lt;b&gt; &amp; &#39;"));
  CHECK_THAT(page, contains("perfect scaling"));
  CHECK_THAT(to_markdown(result),
             contains("| 4 | 1 | 12 (12 to 12) | 10667 | 3.33 | 83 % (83 to 83) | 17 % | 0 |"));
  CHECK_THAT(to_markdown(result), contains("--data.path 'a <b> & \"c\"' --model mnist"));
  CHECK_THAT(to_csv(result), contains("4,1,3,200,128,0.012,"));
  CHECK_NOTHROW(to_html(StudyResult{}));
}

}  // namespace
}  // namespace cxtrain
