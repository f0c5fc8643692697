#include "fixture.h"
#include "metrics/cases.h"

/// Metrics with states on a device.
namespace cxtrain {
namespace {

TEST_CASE_METHOD(test::TwoFakeDevices,
                 "a metric on a device has torchmetrics' number, and update waits for nothing") {
  std::size_t tested = 0;
  for (const test::MetricCase& each : test::metric_cases()) {
    if (!each.preds.defined()) continue;
    INFO(each.name);
    const at::Tensor preds = each.preds.to(device), target = each.target.to(device);
    const auto metric = each.make();
    metric->to(device);
    {
      const test::HostReads reads;
      for (const std::int64_t begin : {0, 20, 40}) {
        metric->update(preds.slice(0, begin, begin + 20), target.slice(0, begin, begin + 20));
        metric->end_batch();
      }
      CHECK(reads.names() == std::vector<std::string>{});
    }
    metric->collect();
    CHECK(metric->state(0).device() == device);
    CHECK(test::difference_from_torchmetrics(each.name, metric->value().cpu()) == "");
    ++tested;
  }
  CHECK(tested > 100);
}

}  // namespace
}  // namespace cxtrain
