#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/report/metric_logger.h"

namespace cxtrain {

/// The loggers of a run, behind one face that never throws: a full disk or a folder that somebody deletes
/// costs rows, not the training. The first failure is logged, the rows that each logger lost are
/// counted. Rows are flushed every few seconds, so that who watches the files sees them. Used by one thread.
class MetricLoggers {
 public:
  /// `clock` outlives it.
  explicit MetricLoggers(const Clock& clock) : clock_(clock) {}

  /// `logger` outlives it.
  void add(MetricLogger& logger) { loggers_.push_back({&logger}); }

  void log_hyperparams(const Hyperparameters& hparams) noexcept;
  void log(std::int64_t step, std::int64_t epoch, std::span<const MetricLogger::Metric> row) noexcept;
  /// Give an image (`MetricLogger::log_image`) or a text to every logger. Warn once if none keeps it.
  void log_image(std::string_view name, const at::Tensor& image, std::int64_t step) noexcept;
  void log_text(std::string_view name, std::string_view text, std::int64_t step) noexcept;
  void flush() noexcept;
  /// Every logger's place, in a section of its own, with all rows flushed; and back to it on loggers of the
  /// same kinds, before their first row (`MetricLogger::on_load_checkpoint`).
  void on_save_checkpoint(StateDict& state);
  void on_load_checkpoint(const StateDict& state, const RunFolder& from);
  /// Flushes when the last time is some seconds ago and there is anything to flush.
  void flush_when_due() noexcept {
    if (unflushed_ && clock_.now() >= next_flush_) flush();
  }

  bool empty() const { return loggers_.empty(); }
  /// The rows that a logger has lost, of the one that lost most.
  std::int64_t lost_rows() const;

 private:
  struct Entry {
    MetricLogger* logger;
    std::int64_t pending = 0;  ///< rows since the last flush that worked
    std::int64_t lost = 0;
    bool failed = false;
  };
  template <class Work>
  void attempt(Entry& entry, Work&& work) noexcept;
  /// Calls `log` for every logger, which returns false if the logger keeps nothing. `call`: for the warning,
  /// once, that no logger does.
  template <class Log>
  void offer(const char* call, bool& warned, Log&& log) noexcept;
  std::vector<std::string> state_keys() const;

  const Clock& clock_;
  std::vector<Entry> loggers_;
  bool unflushed_ = false;
  double next_flush_ = 0;
  bool warned_of_images_ = false, warned_of_texts_ = false;
};

}  // namespace cxtrain
