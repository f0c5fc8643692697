#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace cxtrain {

/// How `Module::log` treats a value. The defaults are Lightning's: in `training_step` on_step, elsewhere
/// on_epoch.
struct LogOptions {
  std::optional<bool> on_step = {};   ///< to the loggers every `log_every_n_steps`
  std::optional<bool> on_epoch = {};  ///< the mean over the epoch's samples, over all ranks
  bool prog_bar = false;              ///< also in the progress bar
  bool logger = true;
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
