#pragma once

#include <memory>

#include "cxtrain/report/metric_logger.h"

namespace cxtrain {

class EventWriter;
class Filesystem;

/// Scalars for TensorBoard: a curve for each metric, and `epoch` as Lightning draws it.
class TensorBoardLogger final : public MetricLogger {
 public:
  /// Writes an events file in `directory`, which exists.
  TensorBoardLogger(Filesystem& files, const std::string& directory);
  ~TensorBoardLogger() override;

  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override;
  void flush() override;

 private:
  std::unique_ptr<EventWriter> writer_;
};

}  // namespace cxtrain
