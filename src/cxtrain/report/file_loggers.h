#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/base/append_file.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/report/metric_logger.h"

/// The files of a run that hold its metrics. Each is written in a folder that exists, and continued where it
/// exists itself.
namespace cxtrain {

/// `metrics.csv` in the layout of Lightning's CSVLogger: a column for each key, among them `epoch` and
/// `step`, sorted by name; a cell is empty where its row lacks the key. A key that appears later rewrites the
/// file with a new header.
class CsvLogger final : public MetricLogger {
 public:
  CsvLogger(Filesystem& files, const std::string& directory);

  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override;
  void flush() override;

 private:
  void open();
  void add_columns(std::span<const std::string> keys);

  Filesystem& files_;
  std::string path_;
  std::vector<std::string> columns_;
  std::unique_ptr<AppendFile> file_;  ///< null after a failure: opened again for the next row
};

/// `metrics.jsonl`: one JSON object a row, `{"step": .., "epoch": .., "train_loss": ..}`; null for a value
/// that is not finite.
class JsonlLogger final : public MetricLogger {
 public:
  JsonlLogger(Filesystem& files, const std::string& directory);

  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override;
  void flush() override { file_.flush(); }

 private:
  AppendFile file_;
};

class EventWriter;

/// Scalars for TensorBoard, an events file: a curve for each metric, and `epoch` as Lightning draws it.
class TensorBoardLogger final : public MetricLogger {
 public:
  TensorBoardLogger(Filesystem& files, const std::string& directory);
  ~TensorBoardLogger() override;

  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override;
  void flush() override;

 private:
  std::unique_ptr<EventWriter> writer_;
};

/// Adds them to the registry as `csv`, `jsonl` and `tensorboard`; a name that is taken is left alone.
void register_file_loggers(Registry& registry);

}  // namespace cxtrain
