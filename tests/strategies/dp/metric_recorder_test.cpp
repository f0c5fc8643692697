#include "strategies/dp/metric_recorder.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>

#include <array>
#include <cmath>
#include <limits>

#include "cxtrain/base/error.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

/// Writes down what reaches the run.
struct Sink final : MetricSink {
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options) override {
    log(name, value.item<double>(), options);
  }
  void log(std::string_view name, double value, const LogOptions& options) override {
    names.emplace_back(name);
    values.push_back(value);
    progress.push_back(options.prog_bar);
  }
  std::vector<std::string> names;
  std::vector<double> values;
  std::vector<bool> progress;
};

TEST_CASE("metrics of replicas reach the run once, weighted by samples, in the first replica's order") {
  std::array<MetricRecorder, 2> recorders;
  recorders[0].log("loss", at::scalar_tensor(4.0), {.prog_bar = true});
  recorders[0].log("accuracy", 0.5, {});
  recorders[1].log("accuracy", 1.0, {});
  recorders[1].log("loss", at::scalar_tensor(1.0), {.prog_bar = true});
  recorders[1].log("rare", 7.0, {});
  Sink sink;
  log_means(recorders, std::array<std::int64_t, 2>{2, 1}, at::kCPU, sink);
  CHECK(sink.names == std::vector<std::string>{"loss", "accuracy", "rare"});
  CHECK(sink.values[0] == Catch::Approx(3.0));
  CHECK(sink.values[1] == Catch::Approx(2.0 / 3.0));
  CHECK(sink.values[2] == 7.0);  // only the replica that has it counts
  CHECK(sink.progress == std::vector<bool>{true, false, false});
}

TEST_CASE("a metric that is logged with a batch size is weighted by it, not by the replica's samples") {
  std::array<MetricRecorder, 2> recorders;
  recorders[0].log("words", 4.0, {.batch_size = 1});
  recorders[1].log("words", 1.0, {.batch_size = 3});
  Sink sink;
  log_means(recorders, std::array<std::int64_t, 2>{8, 8}, at::kCPU, sink);
  CHECK(sink.values.at(0) == Catch::Approx((1 * 4.0 + 3 * 1.0) / 4));
}

TEST_CASE("a name logged twice in a step stays two values") {
  std::array<MetricRecorder, 2> recorders;
  for (MetricRecorder& recorder : recorders) {
    recorder.log("pass", 1.0, {});
    recorder.log("pass", 2.0, {});
  }
  Sink sink;
  log_means(recorders, std::array<std::int64_t, 2>{3, 3}, at::kCPU, sink);
  CHECK(sink.values == std::vector<double>{1.0, 2.0});
}

TEST_CASE("a metric that is no number is refused where it is logged") {
  MetricRecorder recorder;
  REQUIRE_THROWS_WITH(recorder.log("loss", at::ones({2}), {}), test::contains("log(\"loss\")"));
}

TEST_CASE("the largest value of replicas is NaN if the value of one is NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::array<double, 2> values : {std::array{1.0, nan}, std::array{nan, 1.0}}) {
    std::array<MetricRecorder, 2> recorders;
    for (std::size_t r = 0; r < 2; ++r) {
      recorders[r].log("number", values[r], {.reduce_fx = ReduceFx::max});
      recorders[r].log("tensor", at::scalar_tensor(values[r]), {.reduce_fx = ReduceFx::max});
    }
    Sink sink;
    log_means(recorders, std::array<std::int64_t, 2>{1, 1}, at::kCPU, sink);
    CHECK(std::isnan(sink.values.at(0)));
    CHECK(std::isnan(sink.values.at(1)));
  }
}

}  // namespace
}  // namespace cxtrain
