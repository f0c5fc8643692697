#pragma once

#include "cxtrain/base/append_file.h"
#include "cxtrain/report/metric_logger.h"

namespace cxtrain {

/// `metrics.jsonl`: one JSON object a row, `{"step": .., "epoch": .., "train_loss": ..}`; null for a value
/// that is not finite. A file that exists is continued.
class JsonlLogger final : public MetricLogger {
 public:
  /// Writes `directory`/metrics.jsonl; the directory exists.
  JsonlLogger(Filesystem& files, const std::string& directory);

  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override;
  void flush() override { file_.flush(); }

 private:
  AppendFile file_;
};

}  // namespace cxtrain
