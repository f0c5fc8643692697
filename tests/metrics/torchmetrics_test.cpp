#include <algorithm>
#include <set>
#include <vector>

#include "cxtrain/metrics/model_metrics.h"
#include "metrics/cases.h"
#include "support/state_difference.h"

/// Each metric against torchmetrics' numbers, in one process.
namespace cxtrain {
namespace {

using test::kMetricSamples;
using test::MetricCase;

void update_in_batches(const MetricCase& each, Metric& metric, std::int64_t begin, std::int64_t end,
                       std::int64_t size) {
  for (; begin < end; begin += size) each.update(metric, begin, std::min(begin + size, end));
}

TEST_CASE("a metric has torchmetrics' number, in one batch and in several") {
  for (const MetricCase& each : test::metric_cases()) {
    for (const std::int64_t size : {kMetricSamples, std::int64_t{7}}) {
      const auto metric = each.make();
      update_in_batches(each, *metric, 0, kMetricSamples, size);
      CHECK(test::difference_from_torchmetrics(each.name, metric->value()) == "");
    }
  }
}

TEST_CASE("each number of torchmetrics has its case") {
  std::set<std::string> tested;
  for (const MetricCase& each : test::metric_cases()) tested.insert(each.name);
  for (const auto& [name, value] : test::expected_metrics().items()) {
    INFO(name);
    CHECK(tested.contains(name));
  }
}

TEST_CASE("the states of two metrics, added, and of batches that were put aside, are those of all samples") {
  for (const MetricCase& each : test::metric_cases()) {
    const auto first = each.make(), second = each.make();
    update_in_batches(each, *first, 0, 22, 9);
    first->end_batch();
    update_in_batches(each, *second, 22, 30, 8);
    second->end_batch();
    update_in_batches(each, *second, 30, kMetricSamples, 16);
    first->merge(*second);
    first->end_batch();
    first->collect();
    CHECK(test::difference_from_torchmetrics(each.name, first->value()) == "");
    CHECK(first->updates() == 6);
  }
}

TEST_CASE("a saved metric goes on to the bit") {
  for (const MetricCase& each : test::metric_cases()) {
    INFO(each.name);
    const auto whole = each.make(), resumed = each.make();
    update_in_batches(each, *whole, 0, 20, 10);
    whole->end_batch();
    update_in_batches(each, *whole, 20, 30, 10);
    StateDict state;
    whole->save(state);
    resumed->load(state.clone());
    for (Metric* metric : {whole.get(), resumed.get()}) {
      update_in_batches(each, *metric, 30, kMetricSamples, 10);
      metric->collect();
    }
    StateDict expected, found;
    whole->save(expected);
    resumed->save(found);
    CHECK(test::first_difference(expected, found) == "");
    CHECK(test::difference_from_torchmetrics(each.name, resumed->value()) == "");
  }
}

TEST_CASE("what ranks have saved becomes the state of one") {
  for (const MetricCase& each : test::metric_cases()) {
    std::vector<StateDict> saved(3);
    for (std::size_t rank = 0; rank < saved.size(); ++rank) {
      const auto metric = each.make();
      const auto begin = static_cast<std::int64_t>(rank) * 20;
      each.update(*metric, begin, begin + 15);
      metric->end_batch();
      each.update(*metric, begin + 15, begin + 20);
      metric->save(saved[rank]);
    }
    const auto metric = each.make();
    metric->load(merge_saved_metric(std::vector<const StateDict*>{&saved[0], &saved[1], &saved[2]}));
    CHECK(test::difference_from_torchmetrics(each.name, metric->value()) == "");
    CHECK(metric->updates() == 6);
  }
}

TEST_CASE("a metric without samples has a result") {
  for (const MetricCase& each : test::metric_cases()) {
    INFO(each.name);
    CHECK_NOTHROW(each.make()->value());
  }
}

}  // namespace
}  // namespace cxtrain
