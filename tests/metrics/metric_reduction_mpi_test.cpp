#include "cxtrain/metrics/model_metrics.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/metrics/metric_store.h"
#include "metrics/cases.h"
#include "support/counting_world.h"
#include "support/mpi_world.h"

/// The collectives of all metrics of an epoch.
namespace cxtrain {
namespace {

std::vector<std::unique_ptr<Metric>> every_built_in() {
  std::vector<std::unique_ptr<Metric>> metrics;
  for (const test::MetricCase& each : test::metric_cases()) {
    metrics.push_back(each.make());
    metrics.back()->set_name(each.name + std::to_string(metrics.size()));
    each.update(*metrics.back(), 0, 10);
  }
  return metrics;
}

std::vector<Metric*> pointers(const std::vector<std::unique_ptr<Metric>>& metrics) {
  std::vector<Metric*> all;
  for (const auto& metric : metrics) all.push_back(metric.get());
  return all;
}

TEST_CASE("all metrics of an epoch take one sum and one gather; those of counts take one sum") {
  if (test_world().size() == 1) return test::skip_for_ranks("nothing is sent");
  const auto metrics = every_built_in();
  test::CountingWorld world(test_world());
  reduce_over_ranks(pointers(metrics), world);
  CHECK(world.sums == 1);
  CHECK(world.gathers == 1);

  Accuracy accuracy({.classes = 4});
  F1Score f1({.classes = 7});
  ConfusionMatrix matrix({.classes = 5});
  AUROC auroc({.classes = 3});
  Metric* const of_counts[] = {&accuracy, &f1, &matrix, &auroc};
  test::CountingWorld again(test_world());
  reduce_over_ranks(of_counts, again);
  CHECK(again.sums == 1);
  CHECK(again.gathers == 0);

  test::CountingWorld unused(test_world());
  reduce_over_ranks({}, unused);
  CHECK(unused.sums + unused.gathers == 0);
}

constexpr LogRule kStepOfRanks{"validation_step", LogRule::Phase::evaluation, LogRule::Allowed::both, false};

TEST_CASE("the end of an epoch with many logged metrics takes one sum, one gather, and the gather of names") {
  if (test_world().size() == 1) return test::skip_for_ranks("nothing is sent");
  const auto metrics = every_built_in();
  MetricStore store;
  store.model_metrics().set(pointers(metrics));
  store.enter({&kStepOfRanks, 10});
  std::size_t logged = 0;
  for (const auto& metric : metrics) {
    if (metric->value().numel() != 1) continue;
    store.log(metric->name(), *metric, {});
    ++logged;
  }
  test::CountingWorld world(test_world());
  store.model_metrics().reduce(world);
  CHECK(store.reduce_epoch(LogRule::Phase::evaluation, world).size() == logged);
  CHECK(logged > 60);
  CHECK(world.sums == 1);
  CHECK(world.gathers == 2);
}

class StatesOfRanks : public Metric {
 public:
  using Metric::update;
  void update(double value, std::int64_t rows) {
    const Updating updating(*this);
    whole_ += static_cast<std::int64_t>(value);
    mean_ = at::full({}, value);
    append(rows_, at::full({rows, 2}, static_cast<double>(rows), at::kFloat));
  }
  at::Tensor compute() const override { return mean_; }

  at::Tensor& whole_ = add_state("whole", at::zeros({2}, at::kLong));
  at::Tensor& mean_ = add_state("mean", at::zeros({}), Reduce::mean);
  at::Tensor& rows_ = add_state("rows", at::zeros({0, 2}), Reduce::cat);
};

TEST_CASE(
    "ranks' rows come in their order, whole numbers are exact, and a rank without updates weighs nothing") {
  const int ranks = test_world().size(), rank = test_world().rank();
  constexpr std::int64_t kLarge = (std::int64_t{1} << 50) + 1;
  StatesOfRanks metric;
  if (rank > 0 || ranks == 1) metric.update(static_cast<double>(kLarge), rank);
  Metric* const all[] = {&metric};
  reduce_over_ranks(all, test_world());
  const std::int64_t with_samples = ranks == 1 ? 1 : ranks - 1;
  CHECK(metric.updates() == with_samples);
  CHECK(metric.whole_[0].item<std::int64_t>() == with_samples * kLarge);
  CHECK(metric.whole_.scalar_type() == at::kLong);
  CHECK(metric.compute().item<float>() == static_cast<float>(kLarge));
  std::vector<at::Tensor> in_order{at::zeros({0, 2})};  // rank r has r rows of r
  for (int r = 1; r < ranks; ++r) in_order.push_back(at::full({r, 2}, static_cast<double>(r), at::kFloat));
  CHECK(metric.rows_.equal(at::cat(in_order)));
}

}  // namespace
}  // namespace cxtrain
