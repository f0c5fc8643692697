#include "cxtrain/metrics/metric_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
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

TEST_CASE("a NaN is the least and the largest number, whenever it comes") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const ReduceFx fx : {ReduceFx::min, ReduceFx::max}) {
    MetricAccumulator first, last, other;
    first.add(fx, nan, 1);
    first.add(fx, 1.0, 1);
    last.add(fx, 1.0, 1);
    last.add(fx, nan, 1);
    other.add(fx, 1.0, 1);
    other.merge(fx, last);
    for (const MetricAccumulator& each : {first, last, other}) CHECK(std::isnan(each.read(fx)));
  }
}

TEST_CASE("a metric of a device may be logged in inference mode and outside of it") {
  const LogRule rule{
      .hook = "validation_step", .phase = LogRule::Phase::evaluation, .allowed = LogRule::Allowed::both};
  const auto log_one = [](MetricStore& store, bool inference, const LogOptions& options) {
    const c10::InferenceMode mode(inference);
    // Like a GPU's, its value is not on the host; unlike a GPU, every machine has it.
    store.log("loss", at::empty({}, at::TensorOptions(at::kMeta).dtype(at::kFloat)), options);
  };
  const ReduceFx fx = GENERATE(ReduceFx::mean, ReduceFx::sum, ReduceFx::min, ReduceFx::max);
  const bool inference_first = GENERATE(true, false);
  CAPTURE(static_cast<int>(fx), inference_first);
  MetricStore store;
  store.enter({&rule, 4});
  for (int i = 0; i < 4; ++i)
    CHECK_NOTHROW(log_one(store, inference_first == (i % 2 == 0), {.reduce_fx = fx}));
}

TEST_CASE("values on a device are left out where nobody may wait for the device") {
  constexpr LogRule rule{"training_step", LogRule::Phase::training, LogRule::Allowed::both,
                         /*on_step=*/true};
  MetricStore store;
  store.enter({&rule, 1});
  store.log("number", 2.0, {});
  store.log("tensor", on_device(3), {});
  store.log("gpu", at::empty({}, at::TensorOptions(at::kMeta).dtype(at::kFloat)), {});
  CHECK(store.all_on_host() == std::map<std::string, double>{{"number", 2}, {"tensor", 3}});
}

TEST_CASE("on another number of ranks rank 0 takes over what every rank has logged in an epoch") {
  constexpr LogRule rule{"training_step", LogRule::Phase::training, LogRule::Allowed::both};
  std::vector<StateDict> saved(2);
  for (const bool second : {false, true}) {
    MetricStore store;
    store.enter({&rule, 1});
    store.log("loss", second ? 3.0 : 1.0, {});
    if (second) store.log("rare", 5.0, {});
    store.save(saved[second ? 1 : 0]);
  }
  SoloWorld world;
  MetricStore first, second;
  first.load(MetricStore::for_other_ranks(saved, 0));
  second.load(MetricStore::for_other_ranks(saved, 1));
  const MetricStore::Values all = first.reduce_epoch(LogRule::Phase::training, world);
  const std::map<std::string, double> values(all.begin(), all.end());
  CHECK(values == std::map<std::string, double>{{"loss", 2}, {"rare", 5}});
  CHECK(second.reduce_epoch(LogRule::Phase::training, world).empty());
}

}  // namespace
}  // namespace cxtrain
