#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/report/metric_loggers.h"
#include "cxtrain/report/run_loggers.h"

namespace cxtrain {

/// Writes rows of metrics to the loggers (of rank 0), images and texts. A row of a step is written with the
/// next one where a device computes its values, so that no rank waits for the device. All methods that write
/// rows are collective.
class MetricRows final : public RunLoggers {
 public:
  /// All references outlive it. `on_device`: values come from a device other than the CPU.
  MetricRows(MetricStore& metrics, World& world, const TrainState& state, const Progress& progress,
             const Clock& clock, bool on_device)
      : loggers(clock),
        metrics_(metrics),
        world_(world),
        state_(state),
        progress_(progress),
        on_device_(on_device) {}

  /// Writes a row of the current step. `step` counts from 0, as Lightning's does.
  void log(std::span<const MetricLogger::Metric> row);
  /// Writes a row of what was logged on_step since the last call.
  void log_step();
  /// Writes the row that waits for its values. Waits for the device.
  void write_pending();

  void log_image(std::string_view name, const at::Tensor& image) override;
  void log_text(std::string_view name, std::string_view text) override;

  MetricLoggers loggers;

 private:
  struct PendingRow {
    std::int64_t step = 0, epoch = 0;
    MetricStore::StepValues values;
  };

  bool takes_images_and_texts() const;
  std::int64_t step() const { return state_.global_step > 0 ? state_.global_step - 1 : 0; }

  MetricStore& metrics_;
  World& world_;
  const TrainState& state_;
  const Progress& progress_;
  bool on_device_;
  std::optional<PendingRow> pending_;
};

}  // namespace cxtrain
