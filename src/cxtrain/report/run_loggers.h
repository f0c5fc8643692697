#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace cxtrain {

/// The loggers of a run, for images and texts from hooks and steps: Lightning's `trainer.loggers`. Numbers go
/// to `log`.
///
///     run.loggers().log_image("samples", generator->forward(noise));
///     run.loggers().log_text("notes", "the first epoch with **all** classes");
///
/// Any rank may call the methods, on its own. The loggers of rank 0 write; on other ranks a call costs
/// nothing. An image or a text has the step `global_step()`. Nothing is written in a sanity check, nor
/// outside of hooks and steps. With `dp` only the first replica's steps write.
class RunLoggers {
 public:
  virtual ~RunLoggers() = default;
  /// Logs an image. `image`: any device, [H, W] or [C, H, W] with C = 1 (grey) or 3 (red, green, blue), or
  /// [N, C, H, W], which becomes a grid: rows of 8, 2 black pixels between the images. Either uint8, or
  /// floating point from 0 to 1: smaller values and NaN become 0, larger values 1. On rank 0 the call waits
  /// for the device, so log an image every so many steps only. Throws TrainingError on every rank for another
  /// shape or dtype. Warns once if no logger of the run keeps images.
  virtual void log_image(std::string_view name, const at::Tensor& image) = 0;
  /// Logs a text, which TensorBoard shows as Markdown. Warns once if no logger of the run keeps texts.
  virtual void log_text(std::string_view name, std::string_view text) = 0;
};

}  // namespace cxtrain
