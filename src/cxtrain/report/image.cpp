#include "cxtrain/report/image.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/data/decode_image.h"

namespace cxtrain {
namespace {

[[noreturn]] void refuse_image(std::string_view call, const std::string& reason) {
  throw TrainingError(std::string(call) + ": " + reason, MessageCode::log_misuse);
}

/// torchvision.utils.make_grid's layout: rows of 8 images, with 2 black pixels around each.
at::Tensor grid_of(const at::Tensor& images) {
  constexpr std::int64_t kColumns = 8, kPadding = 2;
  const std::int64_t count = images.size(0), height = images.size(2), width = images.size(3);
  if (count == 1) return images[0];
  const std::int64_t columns = std::min(kColumns, count), rows = (count + columns - 1) / columns;
  at::Tensor grid = at::zeros(
      {images.size(1), rows * (height + kPadding) + kPadding, columns * (width + kPadding) + kPadding},
      at::kByte);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t top = i / columns * (height + kPadding) + kPadding;
    const std::int64_t left = i % columns * (width + kPadding) + kPadding;
    grid.narrow(1, top, height).narrow(2, left, width).copy_(images[i]);
  }
  return grid;
}

}  // namespace

void require_image(std::string_view call, const at::Tensor& image) {
  if (!image.defined()) refuse_image(call, "the tensor is undefined; pass an image");
  if (image.scalar_type() != at::kByte && !image.is_floating_point()) {
    refuse_image(call,
                 "an image is uint8, or floating point with values from 0 to 1, and the tensor has dtype " +
                     std::string(c10::toString(image.scalar_type())) +
                     "; convert it, for example with .to(torch::kFloat)");
  }
  const std::int64_t dim = image.dim();
  const std::int64_t channels = dim == 2 ? 1 : dim == 3 || dim == 4 ? image.size(dim - 3) : 0;
  if ((channels != 1 && channels != 3) || image.numel() == 0) {
    std::ostringstream shape;
    shape << image.sizes();
    refuse_image(call,
                 "an image has the shape [H, W], [C, H, W] or [N, C, H, W] with C = 1 or 3, and the tensor "
                 "has " +
                     shape.str() + "; reshape or permute it");
  }
  if (image.numel() / channels > kMaxPixels) {
    refuse_image(call, "the tensor has " + std::to_string(image.numel() / channels) +
                           " pixels, and an image may have " + std::to_string(kMaxPixels) +
                           "; pass fewer or smaller images");
  }
}

at::Tensor image_bytes(std::string_view call, const at::Tensor& image) {
  require_image(call, image);
  const at::NoGradGuard no_grad;
  at::Tensor bytes = image.detach();
  // torchvision's save_image rounds like this.
  if (bytes.is_floating_point())
    bytes = bytes.to(at::kFloat).nan_to_num(0).clamp(0, 1).mul(255).add(0.5).to(at::kByte);
  bytes = bytes.to(at::kCPU);
  if (bytes.dim() == 2) return bytes.unsqueeze(0);
  return bytes.dim() == 3 ? bytes : grid_of(bytes);
}

}  // namespace cxtrain
