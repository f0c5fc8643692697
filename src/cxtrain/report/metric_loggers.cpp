#include "cxtrain/report/metric_loggers.h"

#include <algorithm>
#include <exception>
#include <typeinfo>
#include <utility>

#include "cxtrain/base/class_name.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/report/metric_logger.h"
#include "cxtrain/state/stateful.h"

namespace cxtrain {
namespace {

constexpr double kFlushSeconds = 3;

}  // namespace

/// Rows since the last flush that worked may have been in a buffer: all of them count as lost.
template <class Work>
void MetricLoggers::attempt(Entry& entry, Work&& work) noexcept try {
  try {
    work(*entry.logger);
  } catch (const std::exception& error) {
    entry.lost += entry.pending;
    entry.pending = 0;
    const bool said = std::ranges::any_of(loggers_, [](const Entry& e) { return e.failed; });
    entry.failed = true;
    if (said) return;
    log_warning("metrics cannot be written, and training continues without them: " + message_of(error));
  }
} catch (...) {
  // Not even the message could be made.
}

void MetricLoggers::log_hyperparams(const Hyperparameters& hparams) noexcept {
  for (Entry& entry : loggers_)
    attempt(entry, [&](MetricLogger& logger) { logger.log_hyperparams(hparams); });
}

void MetricLoggers::log(std::int64_t step, std::int64_t epoch,
                        std::span<const MetricLogger::Metric> row) noexcept {
  for (Entry& entry : loggers_) {
    ++entry.pending;
    attempt(entry, [&](MetricLogger& logger) { logger.log(step, epoch, row); });
  }
  unflushed_ = true;
  flush_when_due();
}

template <class Log>
void MetricLoggers::offer(const char* call, bool& warned, Log&& log) noexcept try {
  bool kept = false;
  for (Entry& entry : loggers_) {
    bool keeps = true;  // a logger that fails has a warning of its own
    attempt(entry, [&](MetricLogger& logger) { keeps = log(logger); });
    kept = kept || keeps;
  }
  unflushed_ = true;
  flush_when_due();
  if (kept || loggers_.empty() || std::exchange(warned, true)) return;
  log_warning(std::string(call) +
              " has no effect: the loggers of this run keep numbers only; add "
              "--loggers.tensorboard");
} catch (...) {
  // The warning could not be made.
}

void MetricLoggers::log_image(std::string_view name, const at::Tensor& image, std::int64_t step) noexcept {
  offer("log_image", warned_of_images_,
        [&](MetricLogger& logger) { return logger.log_image(name, image, step); });
}

void MetricLoggers::log_text(std::string_view name, std::string_view text, std::int64_t step) noexcept {
  offer("log_text", warned_of_texts_,
        [&](MetricLogger& logger) { return logger.log_text(name, text, step); });
}

void MetricLoggers::flush() noexcept {
  for (Entry& entry : loggers_) {
    attempt(entry, [&entry](MetricLogger& logger) {
      logger.flush();
      entry.pending = 0;
    });
  }
  unflushed_ = false;
  next_flush_ = clock_.now() + kFlushSeconds;
}

std::vector<std::string> MetricLoggers::state_keys() const {
  return distinct_keys(transformed(loggers_, [](const Entry& entry) { return entry.logger->state_key(); }));
}

void MetricLoggers::on_save_checkpoint(StateDict& state) {
  flush();
  const std::vector<std::string> keys = state_keys();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // One that throws has no section, and simply goes on.
    StateDict place;
    attempt(loggers_[i], [&](MetricLogger& logger) {
      logger.on_save_checkpoint(place);
      state.make_section(keys[i]) = place;
    });
  }
}

void MetricLoggers::on_load_checkpoint(const StateDict& state, const RunFolder& from) {
  if (from.path.empty())
    log_info("the files of metrics begin here: the folder of the run before was not found");
  const std::vector<std::string> keys = state_keys();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!state.has_section(keys[i])) continue;
    attempt(loggers_[i],
            [&](MetricLogger& logger) { logger.on_load_checkpoint(state.section(keys[i]), from); });
  }
}

std::int64_t MetricLoggers::lost_rows() const {
  std::int64_t most = 0;
  for (const Entry& entry : loggers_) most = std::max(most, entry.lost);
  return most;
}

std::string MetricLogger::state_key() const {
  const MetricLogger& self = *this;
  return class_name(typeid(self));
}

}  // namespace cxtrain
