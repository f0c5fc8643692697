#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace cxtrain {

/// Throws TrainingError if `image` is not an image as `RunLoggers::log_image` takes it. Looks at shape and
/// dtype only. `call`: the beginning of the message, `log_image("samples")`.
void require_image(std::string_view call, const at::Tensor& image);

/// Returns an image as loggers get it: uint8 [C, H, W] on the CPU, C = 1 or 3. Several images become a grid.
/// Waits for the image's device. Throws as `require_image` does.
at::Tensor image_bytes(std::string_view call, const at::Tensor& image);

}  // namespace cxtrain
