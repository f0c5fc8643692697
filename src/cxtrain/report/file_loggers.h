#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/base/append_file.h"
#include "cxtrain/report/metric_logger.h"

/// The files of a run that hold its metrics. Each is written in a folder that exists, and continued where it
/// exists itself.
///
/// Where a training is resumed, a file goes back to the rows that it had when the state was saved: what a run
/// that was killed wrote afterwards is cut off, in place; in a new folder the file begins with a copy of
/// these rows. At no moment does a file lack rows that are to stay. Rows that are not there any more cost a
/// warning.
namespace cxtrain {

/// `metrics.csv` in the layout of Lightning's CSVLogger: a column for each key, among them `epoch` and
/// `step`, sorted by name; a cell is empty where its row lacks the key. A key that appears later rewrites the
/// file with a new header. `hparams.yaml`: the hyperparameters.
class CsvLogger final : public MetricLogger {
 public:
  CsvLogger(Filesystem& files, const std::string& directory);
  /// Throws ConfigError for a run without a folder.
  explicit CsvLogger(const RunFolder& folder);

  void log_hyperparams(const Hyperparameters& hparams) override;
  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override;
  void flush() override;
  void on_save_checkpoint(StateDict& state) override;
  void on_load_checkpoint(const StateDict& state, const RunFolder& from) override;

 private:
  void make_way();
  void open();
  void add_columns(std::span<const std::string> keys);
  std::int64_t begin_with(const std::string& source, const std::vector<std::string>& columns,
                          std::int64_t most_rows);

  Filesystem& files_;
  std::string path_;
  std::vector<std::string> columns_;
  std::int64_t rows_before_ = 0;      ///< in the file when it was opened
  std::unique_ptr<AppendFile> file_;  ///< null after a failure: opened again for the next row
};

/// `metrics.jsonl`: one JSON object a row, `{"step": .., "epoch": .., "train_loss": ..}`; null for a value
/// that is not finite. `hparams.json`: the hyperparameters.
class JsonlLogger final : public MetricLogger {
 public:
  JsonlLogger(Filesystem& files, const std::string& directory);
  /// Throws ConfigError for a run without a folder.
  explicit JsonlLogger(const RunFolder& folder);

  void log_hyperparams(const Hyperparameters& hparams) override;
  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override;
  void flush() override { file_.flush(); }
  void on_save_checkpoint(StateDict& state) override;
  void on_load_checkpoint(const StateDict& state, const RunFolder& from) override;

 private:
  Filesystem& files_;
  AppendFile file_;
};

class EventWriter;

/// An events file for TensorBoard: a curve for each metric, and `epoch` as Lightning draws it; images and
/// texts. The hyperparameters are a row of its table HPARAMS. A resumed training begins a new file beside
/// those that were there, since a TensorBoard that is open reads files in the order of their names and none
/// of them twice.
class TensorBoardLogger final : public MetricLogger {
 public:
  TensorBoardLogger(Filesystem& files, const std::string& directory);
  /// Throws ConfigError for a run without a folder.
  explicit TensorBoardLogger(const RunFolder& folder);
  ~TensorBoardLogger() override;

  void log_hyperparams(const Hyperparameters& hparams) override;
  void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override;
  bool log_image(std::string_view name, const at::Tensor& image, std::int64_t step) override;
  bool log_text(std::string_view name, std::string_view text, std::int64_t step) override;
  void flush() override;
  void on_save_checkpoint(StateDict& state) override;
  void on_load_checkpoint(const StateDict& state, const RunFolder& from) override;

 private:
  EventWriter& writer();
  void remove_later_files(const StateDict& state);

  Filesystem& files_;
  std::string directory_;
  std::unique_ptr<EventWriter> writer_;  ///< null after a failure: begun again for the next row
  Hyperparameters hparams_;
  std::map<std::string, std::uint64_t> earlier_;  ///< files of the training's earlier runs: name, bytes
};

}  // namespace cxtrain
