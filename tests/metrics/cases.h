#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cxtrain/metrics/aggregation.h"
#include "cxtrain/metrics/classification.h"
#include "cxtrain/metrics/curves.h"
#include "cxtrain/metrics/image.h"
#include "cxtrain/metrics/regression.h"
#include "cxtrain/metrics/retrieval.h"
#include "cxtrain/metrics/text.h"
#include "support/catch.h"

/// The built-in metrics on samples that a formula makes, and torchmetrics' numbers for them
/// (tests/metrics/make_expected.py).
namespace cxtrain::test {

inline constexpr std::int64_t kMetricSamples = 60;

/// A metric, and how it takes in the samples [begin, end).
struct MetricCase {
  std::string name;  ///< in expected.json
  std::function<std::unique_ptr<Metric>()> make;
  std::function<void(Metric&, std::int64_t, std::int64_t)> update;
  at::Tensor preds = {}, target = {};  ///< all samples, of a metric that takes pairs
};

inline std::uint32_t hashed(std::uint32_t index, std::uint32_t seed) {
  std::uint32_t h = (index + 1) * 2654435761U + seed * 40503U;
  h ^= h >> 15;
  h *= 2246822519U;
  return h ^ (h >> 13);
}

/// In [0, 1), float64, of 24 bits: float32 has the same values. As the script's.
inline at::Tensor numbers(std::uint32_t seed, at::IntArrayRef shape) {
  const at::Tensor made = at::empty(shape, at::kDouble);
  double* to = made.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < made.numel(); ++i)
    to[i] = (hashed(static_cast<std::uint32_t>(i), seed) >> 8) / 16777216.0;
  return made;
}

inline at::Tensor below(double limit, std::uint32_t seed, at::IntArrayRef shape) {
  return numbers(seed, shape).mul(limit).floor().to(at::kLong);
}

inline at::Tensor ignoring(const at::Tensor& target) {
  const at::Tensor changed = target.clone();
  at::Tensor flat = changed.view({-1});
  flat.index_fill_(0, at::arange(0, flat.numel(), 7), -100);
  return changed;
}

inline std::vector<std::string> texts(std::uint32_t seed) {
  const char* vocabulary[] = {"a", "small", "cat", "sat", "on", "the", "mat", "quietly"};
  const at::Tensor lengths = below(6, seed, {kMetricSamples}).add(3);
  const at::Tensor chosen = below(8, seed + 1, {kMetricSamples, 8});
  std::vector<std::string> made;
  for (std::int64_t i = 0; i < kMetricSamples; ++i) {
    std::string text;
    for (std::int64_t w = 0; w < lengths[i].item<std::int64_t>(); ++w)
      text += (w > 0 ? " " : "") + std::string(vocabulary[chosen[i][w].item<std::int64_t>()]);
    made.push_back(text);
  }
  return made;
}

template <class M>
std::unique_ptr<Metric> make_metric(const auto&... args) {
  return std::make_unique<M>(args...);
}

/// A metric of predictions and targets.
template <class M>
MetricCase pairs(std::string name, const auto& make, const at::Tensor& preds, const at::Tensor& target) {
  return {std::move(name), make,
          [=](Metric& metric, std::int64_t begin, std::int64_t end) {
            metric.update(preds.slice(0, begin, end), target.slice(0, begin, end));
          },
          preds, target};
}
template <class M>
MetricCase pair_case(std::string name, const typename M::Args& args, const at::Tensor& preds,
                     const at::Tensor& target) {
  return pairs<M>(
      std::move(name), [args] { return make_metric<M>(args); }, preds, target);
}

template <class M>
void add_scores(std::vector<MetricCase>& cases, const std::string& name) {
  using enum ClassificationTask;
  const std::int64_t n = kMetricSamples;
  const at::Tensor scores = numbers(1, {n, 5}), target = below(4, 3, {n}), every = below(5, 4, {n});
  const at::Tensor labels = numbers(8, {n, 3}), label_truth = below(2, 9, {n, 3}), truth = below(2, 7, {n});
  for (const Averaging average : {Averaging::micro, Averaging::macro, Averaging::weighted, Averaging::none}) {
    const std::string word(word_of(average));
    cases.push_back(pair_case<M>(name + "_" + word, {.classes = 5, .average = average}, scores, target));
    cases.push_back(pair_case<M>(name + "_labels_" + word,
                                 {.classes = 3, .task = multilabel, .average = average}, labels,
                                 label_truth));
  }
  cases.push_back(
      pair_case<M>(name + "_top2", {.classes = 5, .average = Averaging::macro, .top_k = 2}, scores, target));
  cases.push_back(pair_case<M>(name + "_ignore", {.classes = 5, .average = Averaging::macro},
                               numbers(2, {n, 5}).mul(6).sub(3), ignoring(every)));
  cases.push_back(pair_case<M>(name + "_pixels", {.classes = 5, .average = Averaging::macro},
                               numbers(10, {n, 5, 3, 4}), below(5, 11, {n, 3, 4})));
  cases.push_back(pair_case<M>(name + "_binary", {.task = binary, .threshold = 0.4}, numbers(5, {n}), truth));
  cases.push_back(
      pair_case<M>(name + "_binary_logits", {.task = binary}, numbers(6, {n}).mul(8).sub(4), truth));
}

inline void add_confusions(std::vector<MetricCase>& cases) {
  using enum ClassificationTask;
  const std::int64_t n = kMetricSamples;
  const at::Tensor scores = numbers(1, {n, 5}), target = below(4, 3, {n});
  const at::Tensor labels = numbers(8, {n, 3}), label_truth = below(2, 9, {n, 3});
  const at::Tensor binary_scores = numbers(5, {n}), truth = below(2, 7, {n});
  const at::Tensor pixels = numbers(10, {n, 5, 3, 4}), pixel_truth = below(5, 11, {n, 3, 4});
  using Matrix = ConfusionMatrix;
  cases.push_back(pair_case<Matrix>("ConfusionMatrix", {.classes = 5}, scores, target));
  cases.push_back(pair_case<Matrix>("ConfusionMatrix_target", {.classes = 5, .normalize = Normalize::target},
                                    scores, target));
  cases.push_back(pair_case<Matrix>("ConfusionMatrix_predicted",
                                    {.classes = 5, .normalize = Normalize::predicted}, scores, target));
  cases.push_back(pair_case<Matrix>("ConfusionMatrix_all", {.classes = 5, .normalize = Normalize::all},
                                    scores, ignoring(target)));
  cases.push_back(pair_case<Matrix>("ConfusionMatrix_binary", {.task = binary}, binary_scores, truth));
  cases.push_back(
      pair_case<Matrix>("ConfusionMatrix_labels", {.classes = 3, .task = multilabel}, labels, label_truth));
  for (const Averaging average : {Averaging::micro, Averaging::macro, Averaging::weighted, Averaging::none}) {
    const std::string word(word_of(average));
    cases.push_back(pair_case<JaccardIndex>("JaccardIndex_" + word, {.classes = 5, .average = average},
                                            pixels, pixel_truth));
    cases.push_back(pair_case<JaccardIndex>("JaccardIndex_labels_" + word,
                                            {.classes = 3, .task = multilabel, .average = average}, labels,
                                            label_truth));
    cases.push_back(pair_case<JaccardIndex>("JaccardIndex_ignore_" + word,
                                            {.classes = 5, .average = average, .ignore_index = 0}, scores,
                                            target));
    cases.push_back(pair_case<DiceScore>("DiceScore_samplewise_" + word, {.classes = 5, .average = average},
                                         pixels, pixel_truth));
    cases.push_back(pair_case<DiceScore>("DiceScore_global_" + word,
                                         {.classes = 5, .average = average, .samplewise = false},
                                         pixels.argmax(1), pixel_truth));
  }
  cases.push_back(pair_case<JaccardIndex>("JaccardIndex_binary", {.task = binary}, binary_scores, truth));
  cases.push_back(pair_case<DiceScore>("DiceScore_foreground", {.classes = 5, .include_background = false},
                                       pixels, pixel_truth));
}

template <class M>
void add_curves(std::vector<MetricCase>& cases, const std::string& name, const std::string& way,
                std::int64_t thresholds) {
  using enum ClassificationTask;
  const std::int64_t n = kMetricSamples;
  const at::Tensor scores = numbers(1, {n, 5}), logits = numbers(2, {n, 5}).mul(6).sub(3);
  const at::Tensor target = below(4, 3, {n}), every = below(5, 4, {n}), truth = below(2, 7, {n});
  const std::string prefix = name + "_" + way + "_";
  for (const Averaging average : {Averaging::macro, Averaging::weighted, Averaging::none}) {
    cases.push_back(pair_case<M>(prefix + std::string(word_of(average)),
                                 {.classes = 5, .average = average, .thresholds = thresholds}, scores,
                                 every));
  }
  cases.push_back(pair_case<M>(prefix + "absent", {.classes = 5, .thresholds = thresholds}, logits, target));
  cases.push_back(
      pair_case<M>(prefix + "ignore", {.classes = 5, .thresholds = thresholds}, scores, ignoring(every)));
  cases.push_back(
      pair_case<M>(prefix + "binary", {.task = binary, .thresholds = thresholds}, numbers(5, {n}), truth));
  cases.push_back(pair_case<M>(prefix + "binary_logits", {.task = binary, .thresholds = thresholds},
                               numbers(6, {n}).mul(8).sub(4), ignoring(truth)));
  cases.push_back(pair_case<M>(prefix + "labels",
                               {.classes = 3, .task = multilabel, .thresholds = thresholds},
                               numbers(8, {n, 3}), below(2, 9, {n, 3})));
}

inline void add_regressions(std::vector<MetricCase>& cases) {
  const std::int64_t n = kMetricSamples;
  const at::Tensor a = numbers(12, {n}).mul(4).sub(2), b = a.mul(0.5).add(numbers(13, {n}).mul(4).sub(2));
  const at::Tensor two_a = numbers(14, {n, 2}), two_b = numbers(15, {n, 2});
  cases.push_back(pair_case<MeanSquaredError>("MeanSquaredError", {}, a, b));
  cases.push_back(pair_case<MeanSquaredError>("RootMeanSquaredError", {.squared = false}, a, b));
  cases.push_back(pairs<MeanAbsoluteError>(
      "MeanAbsoluteError", [] { return make_metric<MeanAbsoluteError>(); }, a, b));
  cases.push_back(pair_case<R2Score>("R2Score", {}, a, b));
  cases.push_back(pair_case<R2Score>("R2Score_outputs", {.outputs = 2}, two_a, two_b));
  cases.push_back(pair_case<ExplainedVariance>("ExplainedVariance", {}, a, b));
  cases.push_back(pair_case<ExplainedVariance>("ExplainedVariance_outputs", {.outputs = 2}, two_a, two_b));
  cases.push_back(pair_case<PearsonCorrCoef>("PearsonCorrCoef", {}, a, b));
  cases.push_back(pair_case<PearsonCorrCoef>("PearsonCorrCoef_outputs", {.outputs = 2}, two_a, two_b));
  const at::Tensor rows_a = numbers(16, {n, 8}).sub(0.5), rows_b = numbers(17, {n, 8}).sub(0.5);
  cases.push_back(pair_case<CosineSimilarity>("CosineSimilarity", {}, rows_a, rows_b));
  cases.push_back(pair_case<CosineSimilarity>("CosineSimilarity_sum", {.mean = false}, rows_a, rows_b));
}

template <class M>
MetricCase text_case(std::string name, const auto& make) {
  return {std::move(name), make,
          [said = texts(20), meant = texts(22)](Metric& metric, std::int64_t begin, std::int64_t end) {
            const auto from = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(end - begin);
            dynamic_cast<M&>(metric).update(std::span(said).subspan(from, count),
                                            std::span(meant).subspan(from, count));
          }};
}

inline void add_texts_and_pictures(std::vector<MetricCase>& cases) {
  const std::int64_t n = kMetricSamples;
  const at::Tensor tokens = numbers(18, {n, 4, 6}).mul(6).sub(3), truth = below(6, 19, {n, 4});
  cases.push_back(pair_case<Perplexity>("Perplexity", {}, tokens, truth));
  cases.push_back(pair_case<Perplexity>("Perplexity_ignore", {}, tokens, ignoring(truth)));
  cases.push_back(text_case<EditDistance>("EditDistance",
                                          [] { return make_metric<EditDistance>(EditDistance::Args{}); }));
  cases.push_back(text_case<EditDistance>("EditDistance_sum", [] {
    return make_metric<EditDistance>(EditDistance::Args{.substitution_cost = 2, .mean = false});
  }));
  cases.push_back(text_case<WordErrorRate>("WordErrorRate", [] { return make_metric<WordErrorRate>(); }));
  const at::Tensor originals = numbers(25, {n, 2, 12, 13});
  const at::Tensor pictures = originals.mul(0.75).add(numbers(24, {n, 2, 12, 13}).mul(0.25));
  using Ssim = StructuralSimilarityIndexMeasure;
  cases.push_back(pair_case<PeakSignalNoiseRatio>("PeakSignalNoiseRatio", {}, pictures, originals));
  cases.push_back(pair_case<PeakSignalNoiseRatio>(
      "PeakSignalNoiseRatio_base2", {.data_range = 255, .base = 2}, pictures.mul(255), originals.mul(255)));
  cases.push_back(pair_case<Ssim>("StructuralSimilarity", {}, pictures, originals));
  cases.push_back(pair_case<Ssim>("StructuralSimilarity_sigma1", {.sigma = 1}, pictures, originals));
}

inline void add_retrievals(std::vector<MetricCase>& cases) {
  const std::int64_t n = kMetricSamples;
  const at::Tensor found = numbers(26, {n, 9}).add(0.001),
                   relevant = below(3, 27, {n, 9}).eq(2).to(at::kLong);
  cases.push_back(pair_case<RetrievalRecall>("RetrievalRecall", {.top_k = 3}, found, relevant));
  // By document, and a query's documents spread over the batches: sample s has document d of query (s + d).
  const at::Tensor query = at::arange(n).unsqueeze(1).add(at::arange(9)).remainder(n);
  const at::Tensor document = at::arange(9).expand({n, 9});
  cases.push_back(
      {"RetrievalRecall",
       [] { return make_metric<RetrievalRecall>(RetrievalRecall::Args{.top_k = 3, .by_document = true}); },
       [=](Metric& metric, std::int64_t begin, std::int64_t end) {
         const at::Tensor q = query.slice(0, begin, end), d = document.slice(0, begin, end);
         dynamic_cast<RetrievalRecall&>(metric).update(found.index({q, d}), relevant.index({q, d}), q);
       }});
}

template <class M>
MetricCase value_case(std::string name) {
  return {std::move(name), [] { return make_metric<M>(); },
          [a = numbers(12, {kMetricSamples}).mul(4).sub(2)](Metric& metric, std::int64_t begin,
                                                            std::int64_t end) {
            dynamic_cast<M&>(metric).update(a.slice(0, begin, end));
          }};
}

inline std::vector<MetricCase> metric_cases() {
  std::vector<MetricCase> cases;
  add_scores<Accuracy>(cases, "Accuracy");
  add_scores<PrecisionScore>(cases, "PrecisionScore");
  add_scores<RecallScore>(cases, "RecallScore");
  add_scores<F1Score>(cases, "F1Score");
  add_confusions(cases);
  const std::pair<const char*, std::int64_t> ways[] = {{"binned", 200}, {"coarse", 5}, {"exact", 0}};
  for (const auto& [way, thresholds] : ways) {
    add_curves<AUROC>(cases, "AUROC", way, thresholds);
    add_curves<AveragePrecision>(cases, "AveragePrecision", way, thresholds);
  }
  for (const CalibrationNorm norm : {CalibrationNorm::l1, CalibrationNorm::l2, CalibrationNorm::max}) {
    const std::string word(word_of(norm));
    cases.push_back(pair_case<CalibrationError>("CalibrationError_" + word, {.norm = norm},
                                                numbers(2, {kMetricSamples, 5}).mul(6).sub(3).mul(2),
                                                below(5, 4, {kMetricSamples})));
    cases.push_back(pair_case<CalibrationError>(
        "CalibrationError_binary_" + word, {.task = ClassificationTask::binary, .bins = 10, .norm = norm},
        numbers(5, {kMetricSamples}), below(2, 7, {kMetricSamples})));
  }
  add_regressions(cases);
  add_texts_and_pictures(cases);
  add_retrievals(cases);
  cases.push_back(value_case<MeanMetric>("MeanMetric"));
  cases.push_back(pairs<MeanMetric>(
      "MeanMetric_weighted", [] { return make_metric<MeanMetric>(); },
      numbers(12, {kMetricSamples}).mul(4).sub(2), numbers(28, {kMetricSamples})));
  cases.push_back(value_case<SumMetric>("SumMetric"));
  cases.push_back(value_case<MinMetric>("MinMetric"));
  cases.push_back(value_case<MaxMetric>("MaxMetric"));
  return cases;
}

/// torchmetrics' numbers, by the cases' names.
inline const nlohmann::json& expected_metrics() {
  static const nlohmann::json values =
      nlohmann::json::parse(std::ifstream(CXTRAIN_SOURCE_DIR "/tests/metrics/expected.json")).at("values");
  return values;
}

inline std::vector<double> flat_numbers(const nlohmann::json& value) {
  if (value.is_number()) return {value.get<double>()};
  std::vector<double> all;
  for (const nlohmann::json& each : value) {
    for (const double number : flat_numbers(each)) all.push_back(number);
  }
  return all;
}

/// Where the result differs from torchmetrics'; empty: nowhere. torchmetrics computes in float32.
inline std::string difference_from_torchmetrics(const std::string& name, const at::Tensor& result) {
  const std::vector<double> expected = flat_numbers(expected_metrics().at(name));
  const at::Tensor found = result.to(at::kDouble).contiguous().view({-1});
  std::ostringstream text;
  text.precision(9);
  if (found.numel() != static_cast<std::int64_t>(expected.size())) {
    text << name << ": " << found.numel() << " numbers, expected " << expected.size();
    return text.str();
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double number = found[static_cast<std::int64_t>(i)].item<double>();
    if (std::abs(number - expected[i]) <= 1e-6 * std::max(1.0, std::abs(expected[i]))) continue;
    text << name << "[" << i << "]: " << number << ", expected " << expected[i];
    return text.str();
  }
  return {};
}

}  // namespace cxtrain::test
