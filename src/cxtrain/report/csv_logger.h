#pragma once

#include <memory>
#include <vector>

#include "cxtrain/base/append_file.h"
#include "cxtrain/report/metric_logger.h"

namespace cxtrain {

/// `metrics.csv` in the layout of Lightning's CSVLogger: a column for each key, among them `epoch` and
/// `step`, sorted by name; a cell is empty where its row lacks the key. A key that appears later rewrites the
/// file with a new header. A file that exists is continued.
class CsvLogger final : public MetricLogger {
 public:
  /// Writes `directory`/metrics.csv; the directory exists.
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

}  // namespace cxtrain
