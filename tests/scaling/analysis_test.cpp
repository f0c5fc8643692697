#include "cxtrain/scaling/analysis.h"

#include <cmath>
#include <functional>
#include <random>

#include "cxtrain/base/joined.h"
#include "cxtrain/base/json_fields.h"
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
  result.cores = 1024;
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

TEST_CASE("answers name what is lost, slow ranks, crowded cores and failures", "[scaling]") {
  std::vector<Measurement> points = measured({.step = logarithmic}, {1, 2}, 2);
  for (Measurement& each : points) {
    each.usual_work = 0.010;
    each.slowest_work = each.size.ranks == 2 ? 0.013 : 0.010;
    each.slowest_rank = each.size.ranks - 1;
    each.slowest_host = "n7";
  }
  Measurement lost{.size = {4, 1}, .round = 1};
  lost.failure = "exit status 1";
  points.push_back(lost);
  StudyResult result;
  result.cores = 2;
  result.study.sizes = {{1, 1}, {2, 1}, {4, 1}};
  std::string answers = joined(analyse(result, points).answers, "\n");
  CHECK_THAT(answers,
             contains("From 1 to 2 ranks a step loses 1 ms of 11 ms: 1 ms in reduce, where ranks wait"));
  CHECK_THAT(answers, contains("rank 1 on n7 works at least 30 % longer"));
  CHECK_THAT(answers, contains("measured 2 times only"));
  CHECK_THAT(answers, contains("With 4 ranks 1 training failed: round 1: exit status 1"));
  CHECK(answers.find("cores") == std::string::npos);

  result.cores = 1;
  points.front().slowest_rank = 0;
  answers = joined(analyse(result, points).answers, "\n");
  CHECK_THAT(answers, contains("This machine has 1 core, which 2 ranks shared"));
  CHECK(answers.find("n7") == std::string::npos);  // a rank that waits for a core is not slow
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
