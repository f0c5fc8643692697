#include "metric_recorder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <map>

namespace cxtrain {
namespace {

/// A metric over all replicas, as its `reduce_fx` joins their values.
struct Merged {
  const MetricRecorder::Entry* first = nullptr;
  double number = 0;
  bool has_number = false;
  at::Tensor tensor;  ///< float64 scalar on the primary's device; defined once one value came from a device
  double weight = 0;

  void add(const MetricRecorder::Entry& entry, double samples, at::Device device) {
    if (first == nullptr) first = &entry;
    if (entry.metric != nullptr) return;
    const double own = static_cast<double>(entry.options.batch_size.value_or(0));
    weight += entry.options.batch_size ? own : samples;
    const ReduceFx fx = entry.options.reduce_fx;
    const double factor = fx == ReduceFx::mean ? (entry.options.batch_size ? own : samples) : 1;
    if (!entry.tensor.defined()) {
      const double value = entry.number * factor;
      if (!has_number) {
        number = value;
      } else if (fx == ReduceFx::min) {
        number = std::min(number, value);
      } else if (fx == ReduceFx::max) {
        number = std::max(number, value);
      } else {
        number += value;
      }
      has_number = true;
      return;
    }
    const at::Tensor here = entry.tensor.reshape({}).to(device, at::kDouble, /*non_blocking=*/true);
    if (!tensor.defined()) {
      tensor = here.mul(factor);
    } else if (fx == ReduceFx::min) {
      tensor = at::minimum(tensor, here);
    } else if (fx == ReduceFx::max) {
      tensor = at::maximum(tensor, here);
    } else {
      tensor = tensor.add(here, factor);
    }
  }

  void log_to(MetricSink& sink) const {
    if (first->metric != nullptr) return sink.log(first->name, *first->metric, first->options);
    LogOptions options = first->options;
    if (options.batch_size) options.batch_size = static_cast<std::int64_t>(weight);
    const double divisor = options.reduce_fx == ReduceFx::mean ? weight : 1;
    if (!tensor.defined()) return sink.log(first->name, number / divisor, options);
    at::Tensor all = tensor;
    if (has_number) {
      const at::Tensor rest = at::scalar_tensor(number, tensor.options());
      all = options.reduce_fx == ReduceFx::min   ? at::minimum(all, rest)
            : options.reduce_fx == ReduceFx::max ? at::maximum(all, rest)
                                                 : all.add(rest);
    }
    sink.log(first->name, all.div(divisor), options);
  }
};

}  // namespace

void MetricRecorder::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  if (const std::optional<double> number = host_metric(name, value)) return log(name, *number, options);
  entries_.push_back({std::string(name), 0, value.detach(), options, nullptr});
}

void MetricRecorder::log(std::string_view name, double value, const LogOptions& options) {
  entries_.push_back({std::string(name), value, {}, options, nullptr});
}

void MetricRecorder::log(std::string_view name, Metric& metric, const LogOptions& options) {
  entries_.push_back({std::string(name), 0, {}, options, &metric});
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
  for (const Merged& metric : merged) metric.log_to(sink);
}

}  // namespace cxtrain
