#include "cxtrain/trainer/metric_rows.h"

#include <utility>

#include "cxtrain/cluster/world.h"

namespace cxtrain {

void MetricRows::log(std::span<const MetricLogger::Metric> row) {
  write_pending();
  if (!row.empty()) loggers.log(step(), state_.epoch, row);
}

void MetricRows::log_step() {
  write_pending();
  pending_ = {step(), state_.epoch, metrics_.take_step_values()};
  if (!on_device_) write_pending();
}

void MetricRows::write_pending() {
  if (!pending_) return;
  const PendingRow row = *std::exchange(pending_, std::nullopt);
  const MetricStore::Values values = metrics_.read(row.values, world_);
  if (!values.empty()) loggers.log(row.step, row.epoch, values);
}

}  // namespace cxtrain
