#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace cxtrain {

/// Returns an image as a PNG file (RFC 2083): 8 bits, grey or red, green and blue. `image`: as for
/// `RunLoggers::log_image`. Waits for the image's device. Throws TrainingError for a tensor that is not an
/// image.
std::string to_png(const at::Tensor& image);

}  // namespace cxtrain
