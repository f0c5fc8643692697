#include "cxtrain/trainer/metric_store.h"

#include <ATen/ops/full.h>

#include "support/catch.h"

namespace cxtrain {
namespace {

/// As one on a GPU is kept.
at::Tensor on_device(double value) { return at::full({}, value, at::kFloat); }

TEST_CASE("the last value of a metric counts, whether it came from a device or from the host") {
  MetricScalar metric;
  metric.set(on_device(2));
  CHECK(metric.read() == 2);
  metric.set(3.0);
  CHECK(metric.read() == 3);
  metric.set(on_device(4));
  CHECK(metric.read() == 4);
}

TEST_CASE("values from devices and from the host are one metric's") {
  const auto over_an_epoch = [](ReduceFx fx) {
    MetricAccumulator metric;
    metric.add(fx, on_device(8), 1);
    metric.add(fx, 2.0, 3);
    metric.add(fx, on_device(4), 2);
    metric.add(fx, -1.0, 4);
    CHECK(metric.weight == 10);
    return metric.read(fx);
  };
  CHECK(over_an_epoch(ReduceFx::mean) == 8 + 6 + 8 - 4);  // weighted sum, to be divided by the weight
  CHECK(over_an_epoch(ReduceFx::sum) == 13);
  CHECK(over_an_epoch(ReduceFx::min) == -1);
  CHECK(over_an_epoch(ReduceFx::max) == 8);
}

}  // namespace
}  // namespace cxtrain
