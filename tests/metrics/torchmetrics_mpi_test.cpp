#include <algorithm>
#include <vector>

#include "cxtrain/metrics/model_metrics.h"
#include "metrics/cases.h"
#include "support/mpi_world.h"

/// Each metric against torchmetrics' numbers, over ranks with shards of different sizes.
namespace cxtrain {
namespace {

using test::MetricCase;

/// Batches of `size` samples, in turns; a rank may get none.
void update_shard(const MetricCase& each, Metric& metric, std::int64_t size) {
  const std::int64_t ranks = test_world().size(), rank = test_world().rank();
  for (std::int64_t begin = 0, batch = 0; begin < test::kMetricSamples; begin += size, ++batch) {
    if (batch % ranks != rank) continue;
    each.update(metric, begin, std::min(begin + size, test::kMetricSamples));
  }
}

TEST_CASE("a metric has torchmetrics' number over the ranks, with uneven shards and ranks without samples") {
  for (const MetricCase& each : test::metric_cases()) {
    for (const std::int64_t size : {std::int64_t{13}, std::int64_t{25}, test::kMetricSamples}) {
      const auto metric = each.make();
      update_shard(each, *metric, size);
      Metric* const all[] = {metric.get()};
      reduce_over_ranks(all, test_world());
      CHECK(test::difference_from_torchmetrics(each.name, metric->value()) == "");
      CHECK(metric->updates() == (test::kMetricSamples + size - 1) / size);
    }
  }
}

}  // namespace
}  // namespace cxtrain
