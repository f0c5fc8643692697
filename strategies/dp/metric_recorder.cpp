#include "metric_recorder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <map>

#include "cxtrain/metrics/metric_store.h"

namespace cxtrain {
namespace {

/// A metric over all replicas, as its `reduce_fx` joins their values.
struct Merged {
  const MetricRecorder::Entry* first = nullptr;
  MetricAccumulator values;

  void add(const MetricRecorder::Entry& entry, double samples, at::Device device) {
    if (first == nullptr) first = &entry;
    if (entry.metric != nullptr) return;
    const LogOptions& options = entry.options;
    const double weight = options.batch_size ? static_cast<double>(*options.batch_size) : samples;
    if (!entry.tensor.defined()) return values.add(options.reduce_fx, entry.number, weight);
    const at::Tensor here = entry.tensor.to(device, at::kDouble, /*non_blocking=*/true);
    values.add(options.reduce_fx, here, weight);
  }

  void log_to(MetricSink& sink) {
    if (first->metric != nullptr) return sink.log(first->name, *first->metric, first->options);
    LogOptions options = first->options;
    if (options.batch_size) options.batch_size = static_cast<std::int64_t>(values.weight);
    const bool is_mean = options.reduce_fx == ReduceFx::mean;
    const double divisor = is_mean ? values.weight : 1;
    if (!values.device.defined()) return sink.log(first->name, values.host / divisor, options);
    if (values.on_host) {
      const at::Tensor of_host = at::scalar_tensor(values.host, values.device.options());
      // The host's part of a mean has its weights.
      values.add(is_mean ? ReduceFx::sum : options.reduce_fx, of_host, 0);
    }
    sink.log(first->name, values.device.div(divisor), options);
  }
};

}  // namespace

void MetricRecorder::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  if (const std::optional<double> number = host_metric(name, value)) return log(name, *number, options);
  entries_.push_back({std::string(name), 0, value.detach(), options, nullptr});
}

void MetricRecorder::refer_to(std::span<Metric* const> metrics) {
  for (Entry& entry : entries_) {
    if (entry.metric == nullptr) continue;
    for (Metric* metric : metrics) {
      if (metric->name() == entry.metric->name()) entry.metric = metric;
    }
  }
}

void log_means(std::span<const MetricRecorder> recorders, std::span<const std::int64_t> samples,
               at::Device device, MetricSink& sink) {
  const at::NoGradGuard no_grad;
  std::vector<Merged> merged;
  std::map<std::pair<std::string, int>, std::size_t> known;  // name and how often before -> index in `merged`
  for (std::size_t r = 0; r < recorders.size(); ++r) {
    std::map<std::string, int> times;
    for (const MetricRecorder::Entry& entry : recorders[r].entries()) {
      const auto [index, is_new] = known.try_emplace({entry.name, times[entry.name]++}, merged.size());
      if (is_new) merged.emplace_back();
      merged[index->second].add(entry, static_cast<double>(samples[r]), device);
    }
  }
  for (Merged& metric : merged) metric.log_to(sink);
}

}  // namespace cxtrain
