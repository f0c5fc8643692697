#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cxtrain/config/hyperparameters.h"

namespace at {
class Tensor;
}

namespace cxtrain {

class Filesystem;
class StateDict;

/// The folder that a run writes.
struct RunFolder {
  Filesystem& files;
  std::string path;  ///< exists; empty: no folder
};

/// Destination of logged metrics, images and texts. Rank 0 only; called from the thread that runs the loop,
/// off the step path. Implementations throw Error, with the file, if the file cannot be written.
class MetricLogger {
 public:
  static constexpr std::string_view kKind = "logger";
  using Interface = MetricLogger;
  /// A logger's factory in the registry may take the folder of its run.
  using Context = RunFolder;
  using Metric = std::pair<std::string, double>;

  virtual ~MetricLogger() = default;

  /// Writes the hyperparameters: the arguments of model and data, and what the options say of optimizer and
  /// schedule, by the options' names ("model.lr"). Called once, at the start of a fit that
  /// has any.
  virtual void log_hyperparams(const Hyperparameters& /*hparams*/) {}
  /// Writes one row: the metrics at this step. `step` is the global (optimizer) step, `epoch` counts from 0.
  virtual void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) = 0;
  /// Keeps an image, uint8 [C, H, W] on the CPU with C = 1 (grey) or 3 (red, green, blue), or a text. Returns
  /// false if this logger keeps none. `to_png` (report/png.h) makes a file of an image.
  virtual bool log_image(std::string_view /*name*/, const at::Tensor& /*image*/, std::int64_t /*step*/) {
    return false;
  }
  virtual bool log_text(std::string_view /*name*/, std::string_view /*text*/, std::int64_t /*step*/) {
    return false;
  }
  /// Makes everything logged so far readable for other processes.
  virtual void flush() = 0;

  /// Saves the data that `on_load_checkpoint` needs to find the place again, such as the number of rows.
  /// Called between two steps, when everything logged so far is flushed.
  virtual void on_save_checkpoint(StateDict& /*state*/) {}
  /// Goes back to the rows at the time when `state` was saved, so that the resumed training repeats no row
  /// and leaves none out. Called before the first row. `from`: folder of the run that saved the state. It is
  /// this run's own if the run continues in place; otherwise its rows are copied. Missing rows must not make
  /// it throw. A logger that keeps nothing continues at the end of its file.
  virtual void on_load_checkpoint(const StateDict& /*state*/, const RunFolder& /*from*/) {}
  /// Returns the name of this state in a checkpoint: the class's name, or a longer name from an override.
  virtual std::string state_key() const;
};

}  // namespace cxtrain
