#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/metrics/metric.h"
#include "cxtrain/metrics/metric_sink.h"

namespace cxtrain {

/// Keeps what one replica logs in a step, until it can be merged with what the others logged. Belongs to one
/// thread at a time.
class MetricRecorder final : public MetricSink {
 public:
  struct Entry {
    std::string name;
    double number = 0;
    at::Tensor tensor;  ///< undefined when `number` holds the value
    LogOptions options;
    Metric* metric = nullptr;  ///< the replica's, in place of a value
  };

  void log(std::string_view name, const at::Tensor& value, const LogOptions& options) override;
  void log(std::string_view name, double value, const LogOptions& options) override {
    entries_.push_back({std::string(name), value, {}, options, nullptr});
  }
  void log(std::string_view name, Metric& metric, const LogOptions& options) override {
    entries_.push_back({std::string(name), 0, {}, options, &metric});
  }

  /// Replaces the replica's metrics by those of these names.
  void refer_to(std::span<Metric* const> metrics);
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// Logs to `sink`, once for each metric, what its `reduce_fx` makes of the values of the recorders that have
/// it: by default the mean, weighted by `samples` (one number for each recorder). Where a name was logged
/// several times in a step, the first values meet each other, then the second ones, and so on. The order is
/// that of the first recorder; what only later ones have follows. A metric is logged as it is. Values on
/// other devices are brought to `device`; nothing waits for it.
void log_means(std::span<const MetricRecorder> recorders, std::span<const std::int64_t> samples,
               at::Device device, MetricSink& sink);

}  // namespace cxtrain
