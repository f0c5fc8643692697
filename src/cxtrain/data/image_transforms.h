#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "cxtrain/data/sample_random.h"

/// Changes of pictures, with the formulas and defaults of torchvision's transforms of these names.
namespace cxtrain {

/// Changes one picture: a value that can be called, one of the following or your own. `image`: uint8 or
/// floating point, [channels, height, width]. Several threads call it at once. `random` depends on (seed,
/// epoch, index) alone.
///
///     struct Invert {
///       at::Tensor operator()(const at::Tensor& image, cxtrain::SampleRandom&) const { return 255 - image; }
///     };
using ImageTransform = std::function<at::Tensor(at::Tensor image, SampleRandom& random)>;
using ImageTransforms = std::vector<ImageTransform>;

/// Scales the picture until its shorter side has `size` pixels: bilinear, with antialiasing.
struct Resize {
  std::int64_t size;
  at::Tensor operator()(const at::Tensor& image, SampleRandom& random) const;
};

/// Cuts a square of `size` pixels out of the middle. Throws DataError if the picture is smaller.
struct CenterCrop {
  std::int64_t size;
  at::Tensor operator()(const at::Tensor& image, SampleRandom& random) const;
};

/// Cuts out a rectangle of random size and shape, and scales it to a square of `size` pixels, as `Resize`
/// does: the augmentation of Inception (Szegedy et al. 2015).
struct RandomResizedCrop {
  std::int64_t size;
  std::array<double, 2> scale = {0.08, 1};           ///< of the rectangle's area, in that of the picture
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  ///< of the rectangle's width to its height
  at::Tensor operator()(const at::Tensor& image, SampleRandom& random) const;
};

/// Mirrors the picture, left to right, with this probability.
struct RandomFlip {
  double probability = 0.5;
  at::Tensor operator()(const at::Tensor& image, SampleRandom& random) const;
};

/// The usual recipes for ImageNet, for pictures of `size` pixels: RandomResizedCrop and RandomFlip to train,
/// Resize to 8/7 of the size and CenterCrop to evaluate.
ImageTransforms training_transforms(std::int64_t size = 224);
ImageTransforms evaluation_transforms(std::int64_t size = 224);

}  // namespace cxtrain
