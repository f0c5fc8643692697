#include "cxtrain/metrics/metric_sink.h"

#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/metrics/metric.h"

namespace cxtrain {

void MetricSink::log(std::string_view name, Metric& metric, const LogOptions& options) {
  log(name, metric.value(), options);
}

std::optional<double> host_metric(std::string_view name, const at::Tensor& value) {
  if (!value.defined() || value.numel() != 1) {
    throw TrainingError(
        "log(\"" + std::string(name) + "\"): a metric is one number; reduce the tensor with .mean()",
        MessageCode::log_misuse);
  }
  if (!value.is_cpu()) return std::nullopt;
  // Read without the dispatcher where possible: it would take longer than all else that logging does.
  switch (value.scalar_type()) {
    case at::kFloat:
      return *value.const_data_ptr<float>();
    case at::kDouble:
      return *value.const_data_ptr<double>();
    case at::kLong:
      return static_cast<double>(*value.const_data_ptr<std::int64_t>());
    default:
      return value.item<double>();
  }
}

}  // namespace cxtrain
