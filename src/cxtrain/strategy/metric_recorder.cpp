#include "cxtrain/strategy/metric_recorder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

namespace cxtrain {
namespace {

/// A metric over all replicas: its sum so far, times samples.
struct Merged {
  const MetricRecorder::Entry* first = nullptr;
  double number = 0;
  at::Tensor tensor;  ///< float64 scalar on the primary's device; defined once one value came from a device
  double samples = 0;

  void add(const MetricRecorder::Entry& entry, double weight, at::Device device) {
    if (first == nullptr) first = &entry;
    samples += weight;
    if (!entry.tensor.defined()) {
      number += entry.number * weight;
      return;
    }
    const at::Tensor here = entry.tensor.reshape({}).to(device, at::kDouble, /*non_blocking=*/true);
    tensor = tensor.defined() ? tensor.add(here, weight) : here.mul(weight);
  }
};

}  // namespace

void MetricRecorder::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  if (const std::optional<double> number = host_metric(name, value)) return log(name, *number, options);
  entries_.push_back({std::string(name), 0, value.detach(), options});
}

void MetricRecorder::log(std::string_view name, double value, const LogOptions& options) {
  entries_.push_back({std::string(name), value, {}, options});
}

void log_means(std::span<const MetricRecorder> recorders, std::span<const std::int64_t> samples,
               at::Device device, MetricSink& sink) {
  const at::NoGradGuard no_grad;
  std::vector<Merged> merged;
  std::map<std::pair<std::string, int>, std::size_t> known;  // name and how often before -> place in `merged`
  for (std::size_t r = 0; r < recorders.size(); ++r) {
    std::map<std::string, int> times;
    for (const MetricRecorder::Entry& entry : recorders[r].entries()) {
      const auto [place, is_new] = known.try_emplace({entry.name, times[entry.name]++}, merged.size());
      if (is_new) merged.emplace_back();
      merged[place->second].add(entry, static_cast<double>(samples[r]), device);
    }
  }
  for (const Merged& metric : merged) {
    const MetricRecorder::Entry& entry = *metric.first;
    if (metric.tensor.defined()) {
      sink.log(entry.name, metric.tensor.add(metric.number).div(metric.samples), entry.options);
    } else {
      sink.log(entry.name, metric.number / metric.samples, entry.options);
    }
  }
}

}  // namespace cxtrain
