#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cxtrain {

/// How the values that are logged under one name become one value.
enum class ReduceFx { mean, sum, min, max };

/// How `Module::log` treats a value. Where `on_step` and `on_epoch` are not given, the hook that logs
/// decides, by Lightning's table (`trainer/hooks.h`): `training_step` and what surrounds a training batch log
/// on_step, all others on_epoch.
struct LogOptions {
  std::optional<bool> on_step = {};   ///< to the loggers every `log_every_n_steps`: rank 0's value
  std::optional<bool> on_epoch = {};  ///< reduced over the epoch, and always over all ranks
  bool prog_bar = false;              ///< also in the progress bar
  bool logger = true;
  /// Over the epoch and the ranks. A mean is weighted by samples.
  ReduceFx reduce_fx = ReduceFx::mean;
  /// What is logged on_step is reduced over the ranks, too, whenever it goes to the loggers. Every rank has
  /// to log the name.
  bool sync_dist = false;
  /// The weight of this value in a mean; the batch's samples unless given.
  std::optional<std::int64_t> batch_size = {};
};

/// Takes what a module logs; the running loop owns one.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// `value`: one element, any device. Kept without a host synchronisation.
  virtual void log(std::string_view name, const at::Tensor& value, const LogOptions& options) = 0;
  virtual void log(std::string_view name, double value, const LogOptions& options) = 0;
};

/// The value of a logged tensor where it can be had without waiting for a device. Throws TrainingError when
/// the tensor is not one number.
std::optional<double> host_metric(std::string_view name, const at::Tensor& value);

}  // namespace cxtrain
