#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cxtrain {

class Metric;

/// Reduction of the values that are logged under one name to one value.
enum class ReduceFx { mean, sum, min, max };

/// Treatment of a value by `Module::log`. If `on_step` and `on_epoch` are not given, the hook that logs
/// decides, by Lightning's table (`trainer/hooks.h`): `training_step` and the hooks around a training batch
/// log on_step, all other hooks on_epoch.
struct LogOptions {
  std::optional<bool> on_step = {};   ///< to the loggers every `log_every_n_steps`: rank 0's value
  std::optional<bool> on_epoch = {};  ///< reduced over the epoch, and always over all ranks
  bool prog_bar = false;              ///< also in the progress bar
  bool logger = true;
  /// Reduction over the epoch and the ranks. A mean is weighted by samples.
  ReduceFx reduce_fx = ReduceFx::mean;
  /// Reduces a value logged on_step over the ranks, too, whenever it goes to the loggers. Every rank has to
  /// log the name.
  bool sync_dist = false;
  /// The weight of this value in a mean; the batch's samples unless given.
  std::optional<std::int64_t> batch_size = {};
};

/// Receives the values that a module logs; the running loop owns one.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// `value`: one element, any device. Keeps it without a host synchronisation.
  virtual void log(std::string_view name, const at::Tensor& value, const LogOptions& options) = 0;
  virtual void log(std::string_view name, double value, const LogOptions& options) = 0;
  /// A metric of a model. `reduce_fx` and `batch_size` have no effect. A sink that knows no epochs logs the
  /// result of the states.
  virtual void log(std::string_view name, Metric& metric, const LogOptions& options);
};

/// Returns the value of a logged tensor if that needs no wait for a device. Throws TrainingError if the
/// tensor is not one number.
std::optional<double> host_metric(std::string_view name, const at::Tensor& value);

}  // namespace cxtrain
