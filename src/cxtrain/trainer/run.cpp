#include "cxtrain/trainer/run.h"

namespace cxtrain {

Run::Run(Parts p) : parts(p) { start_clock(); }

void Run::log(std::string_view name, double value) {
  metrics.set(name, value);
  pending_.emplace_back(name, value);
}

void Run::request_stop(std::string reason) {
  if (!stop_requested) stop_reason = std::move(reason);
  stop_requested = true;
}

void Run::call_train_epoch_end() {
  for (const auto& callback : callbacks) {
    if (!callback->monitors()) callback->on_train_epoch_end(*this);
  }
  parts.module.on_train_epoch_end();
  for (const auto& callback : callbacks) {
    if (callback->monitors()) callback->on_train_epoch_end(*this);
  }
}

void Run::log_row(std::span<const MetricLogger::Metric> row) {
  std::vector<MetricLogger::Metric> all(row.begin(), row.end());
  all.insert(all.end(), pending_.begin(), pending_.end());
  pending_.clear();
  if (all.empty()) return;
  const std::int64_t step = std::max<std::int64_t>(state.global_step - 1, 0);
  for (const auto& logger : loggers) logger->log(step, state.epoch, all);
}

void Run::transfer(Batch& batch) const {
  const bool cpu = parts.device.is_cpu();
  if (cpu && !parts.input_dtype) return;
  for (at::Tensor& tensor : batch.tensors) {
    const bool convert = parts.input_dtype && tensor.is_floating_point();
    const at::ScalarType dtype = convert ? *parts.input_dtype : tensor.scalar_type();
    tensor = tensor.to(parts.device, dtype, /*non_blocking=*/!cpu);
  }
}

std::string Run::where() const {
  return "epoch " + std::to_string(state.epoch) + ", step " + std::to_string(state.global_step);
}

}  // namespace cxtrain
