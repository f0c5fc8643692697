#include "cxtrain/data/image_transforms.h"

#include <ATen/ops/_upsample_bilinear2d_aa.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/data/decode_image.h"

namespace cxtrain {
namespace {

std::int64_t height_of(const at::Tensor& image) { return image.size(1); }
std::int64_t width_of(const at::Tensor& image) { return image.size(2); }

at::Tensor cut(const at::Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
               std::int64_t width) {
  return image.narrow(1, top, height).narrow(2, left, width);
}

at::Tensor scaled(const at::Tensor& image, std::int64_t height, std::int64_t width) {
  if (height_of(image) == height && width_of(image) == width) return image;
  if (height < 1 || width < 1 || height > kMaxPixels / width) {
    throw DataError("a picture of " + std::to_string(width_of(image)) + " x " +
                    std::to_string(height_of(image)) + " pixels cannot be scaled to " +
                    std::to_string(width) + " x " + std::to_string(height) +
                    "; use another size, or remove the picture");
  }
  return at::_upsample_bilinear2d_aa(image.unsqueeze(0), {height, width}, /*align_corners=*/false).squeeze(0);
}

/// As Python rounds: 2.5 is 2.
std::int64_t to_even(double number) { return static_cast<std::int64_t>(std::nearbyint(number)); }

struct Rectangle {
  std::int64_t top, left, height, width;
};

Rectangle middle(const at::Tensor& image, std::int64_t height, std::int64_t width) {
  return {(height_of(image) - height) / 2, (width_of(image) - width) / 2, height, width};
}

Rectangle random_rectangle(const at::Tensor& image, const RandomResizedCrop& crop, SampleRandom& random) {
  constexpr int kTries = 10;
  const std::int64_t height = height_of(image), width = width_of(image);
  for (int i = 0; i < kTries; ++i) {
    const double area = static_cast<double>(height * width) * random.uniform(crop.scale[0], crop.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(crop.ratio[0]), std::log(crop.ratio[1])));
    const std::int64_t w = to_even(std::sqrt(area * ratio)), h = to_even(std::sqrt(area / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const std::int64_t top = random.below(height - h + 1), left = random.below(width - w + 1);
    return {top, left, h, w};
  }
  // The largest rectangle in the middle that has such a ratio.
  const double whole = static_cast<double>(width) / static_cast<double>(height);
  const double ratio = std::clamp(whole, crop.ratio[0], crop.ratio[1]);
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  if (whole < ratio) return middle(image, std::max<std::int64_t>(1, to_even(columns / ratio)), width);
  return middle(image, height, std::max<std::int64_t>(1, to_even(rows * ratio)));
}

}  // namespace

at::Tensor Resize::operator()(const at::Tensor& image, SampleRandom&) const {
  const std::int64_t height = height_of(image), width = width_of(image), least = std::min(height, width);
  return scaled(image, size * height / least, size * width / least);
}

at::Tensor CenterCrop::operator()(const at::Tensor& image, SampleRandom&) const {
  const std::int64_t height = height_of(image), width = width_of(image);
  if (height < size || width < size) {
    throw DataError("CenterCrop cuts a square of " + std::to_string(size) + " pixels out of a picture of " +
                    std::to_string(width) + " x " + std::to_string(height) + "; put Resize{" +
                    std::to_string(size) + "} before it");
  }
  const auto half = [this](std::int64_t whole) { return to_even(static_cast<double>(whole - size) / 2); };
  return cut(image, half(height), half(width), size, size);
}

at::Tensor RandomResizedCrop::operator()(const at::Tensor& image, SampleRandom& random) const {
  const Rectangle part = random_rectangle(image, *this, random);
  return scaled(cut(image, part.top, part.left, part.height, part.width), size, size);
}

at::Tensor RandomFlip::operator()(const at::Tensor& image, SampleRandom& random) const {
  return random.flip(probability) ? image.flip(2) : image;
}

ImageTransforms training_transforms(std::int64_t size) { return {RandomResizedCrop{size}, RandomFlip{}}; }

ImageTransforms evaluation_transforms(std::int64_t size) { return {Resize{size * 8 / 7}, CenterCrop{size}}; }

}  // namespace cxtrain
