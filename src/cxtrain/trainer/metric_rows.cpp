#include "cxtrain/trainer/metric_rows.h"

#include <string>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/report/image.h"

namespace cxtrain {
namespace {

void require_name(const std::string& call, std::string_view name) {
  if (!is_one_line(name))
    throw TrainingError(call + ": the name is not one line of text", MessageCode::log_misuse);
}

}  // namespace

void MetricRows::log(std::span<const MetricLogger::Metric> row) {
  const PhaseScope phase(Phase::logging);
  write_pending();
  if (!row.empty()) loggers.log(step(), state_.epoch, row);
}

void MetricRows::log_step() {
  const PhaseScope phase(Phase::logging);
  write_pending();
  pending_ = {step(), state_.epoch, metrics_.take_step_values()};
  if (!on_device_) write_pending();
}

void MetricRows::write_pending() {
  if (!pending_) return;
  const PhaseScope phase(Phase::logging);
  const PendingRow row = *std::exchange(pending_, std::nullopt);
  const MetricStore::Values values = metrics_.read(row.values, world_);
  if (!values.empty()) loggers.log(row.step, row.epoch, values);
}

/// Not in a sanity check, nor outside of hooks and steps, as in the trials of a batch size.
bool MetricRows::takes_images_and_texts() const {
  return world_.is_root() && !loggers.empty() && metrics_.scope().rule != nullptr &&
         !progress_.sanity_checking;
}

void MetricRows::log_image(std::string_view name, const at::Tensor& image) {
  require_name("log_image()", name);
  const std::string call = "log_image(\"" + std::string(name) + "\")";
  require_image(call, image);
  if (takes_images_and_texts()) loggers.log_image(name, image_bytes(call, image), state_.global_step);
}

void MetricRows::log_text(std::string_view name, std::string_view text) {
  require_name("log_text()", name);
  if (takes_images_and_texts()) loggers.log_text(name, text, state_.global_step);
}

}  // namespace cxtrain
