#include "cxtrain/data/image_transforms.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <set>
#include <string>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace {

using namespace cxtrain;
using test::contains;
using Bytes = std::vector<int>;

SampleRandom random_of(std::int64_t index, std::int64_t epoch = 0) { return {7, epoch, index}; }

at::Tensor image_of(std::int64_t height, std::int64_t width) {
  at::Tensor rows = at::empty({height, width, 3}, at::kByte);
  auto* value = rows.mutable_data_ptr<std::uint8_t>();
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) *value++ = static_cast<std::uint8_t>(y * 40 + x * 9 + c * 70);
    }
  }
  return rows.permute({2, 0, 1});
}

Bytes bytes(const at::Tensor& image) {
  const at::Tensor rows = image.permute({1, 2, 0}).contiguous();
  const auto* values = rows.const_data_ptr<std::uint8_t>();
  return {values, values + rows.numel()};
}

template <class Transform>
at::Tensor apply(const Transform& transform, const at::Tensor& image, std::int64_t index = 0,
                 std::int64_t epoch = 0) {
  SampleRandom random = random_of(index, epoch);
  return transform(image, random);
}

}  // namespace

TEST_CASE("Resize scales as Pillow does", "[image]") {
  // The first row of Image.resize((7, 5), BILINEAR) of Pillow 11.3 on a picture of 11 x 7.
  const at::Tensor wide = image_of(7, 11), scaled = apply(Resize{5}, wide);
  REQUIRE(scaled.sizes() == at::IntArrayRef({3, 5, 7}));  // 5 * 11 / 7 = 7.86 is 7, as in torchvision
  CHECK(bytes(scaled.narrow(1, 0, 1)) == Bytes{17,  87, 157, 30,  100, 170, 43,  113, 183, 58, 128,
                                               198, 73, 143, 213, 86,  156, 203, 99,  169, 154});
  CHECK(at::equal(apply(Resize{7}, wide), wide));

  at::Tensor row = at::empty({3, 1, 4}, at::kByte);
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t x = 0; x < 4; ++x)
      row[c][0][x] = static_cast<std::int64_t>(Bytes{0, 100, 200, 50}[static_cast<std::size_t>(x)]);
  }
  const at::Tensor square = row.expand({3, 4, 4}).contiguous();
  // Weights 3/7, 3/7, 1/7 of the pixels 0, 1, 2: the triangle of the filter is two pixels wide.
  CHECK(bytes(apply(Resize{2}, square)) == Bytes{71, 71, 71, 121, 121, 121, 71, 71, 71, 121, 121, 121});
  CHECK(bytes(apply(Resize{8}, square).narrow(1, 0, 1)) == Bytes{0,   0,   0,   25,  25,  25,  75,  75,
                                                                 75,  125, 125, 125, 175, 175, 175, 163,
                                                                 163, 163, 88,  88,  88,  50,  50,  50});
}

TEST_CASE("RandomResizedCrop scales as Pillow does", "[image]") {
  // With the area of the whole picture the rectangle is the whole picture. Image.resize((4, 4), BILINEAR) of
  // Pillow 11.3 on a picture of 7 x 7.
  const RandomResizedCrop whole{.size = 4, .scale = {1, 1}, .ratio = {1, 1}};
  CHECK(bytes(apply(whole, image_of(7, 7))) ==
        Bytes{26,  96,  166, 40,  110, 180, 56,  126, 187, 70,  140, 198, 88,  158, 157, 102,
              172, 171, 118, 188, 91,  132, 202, 67,  162, 181, 46,  176, 157, 60,  192, 77,
              76,  206, 91,  90,  218, 50,  108, 131, 61,  122, 120, 68,  138, 134, 82,  152});
}

TEST_CASE("CenterCrop cuts out the middle, and rejects smaller pictures with a cure", "[image]") {
  const at::Tensor image = image_of(7, 10);
  CHECK(at::equal(apply(CenterCrop{4}, image), image.narrow(1, 2, 4).narrow(2, 3, 4)));  // 1.5 rounds to 2
  CHECK(at::equal(apply(CenterCrop{2}, image), image.narrow(1, 2, 2).narrow(2, 4, 2)));  // 2.5 rounds to 2
  const std::string message = test::error_of<DataError>([&] { apply(CenterCrop{8}, image); });
  CHECK_THAT(message, contains("10 x 7"));
  CHECK_THAT(message, contains("Resize{8}"));
}

TEST_CASE("RandomResizedCrop and RandomFlip depend on seed, epoch and index alone", "[image]") {
  const at::Tensor image = image_of(30, 50);
  std::set<Bytes> different;
  int flipped = 0;
  for (std::int64_t index = 0; index < 60; ++index) {
    const at::Tensor crop = apply(RandomResizedCrop{8}, image, index);
    REQUIRE(crop.sizes() == at::IntArrayRef({3, 8, 8}));
    CHECK(at::equal(crop, apply(RandomResizedCrop{8}, image, index)));
    CHECK(!at::equal(crop, apply(RandomResizedCrop{8}, image, index, /*epoch=*/1)));
    different.insert(bytes(crop));
    const at::Tensor mirrored = apply(RandomFlip{}, image, index);
    if (at::equal(mirrored, image.flip(2)))
      ++flipped;
    else
      CHECK(at::equal(mirrored, image));
  }
  CHECK(different.size() == 60);
  CHECK((flipped > 15 && flipped < 45));
  CHECK(at::equal(apply(RandomFlip{1}, image), image.flip(2)));
  CHECK(at::equal(apply(RandomFlip{0}, image), image));
}

TEST_CASE("RandomResizedCrop of a picture that no rectangle fits into takes the middle", "[image]") {
  // 1 x 100 pixels: no height of 1 pixel and a width of at most 4 / 3 has 8 % of the area.
  const at::Tensor line = image_of(1, 100);
  CHECK(apply(RandomResizedCrop{6}, line).sizes() == at::IntArrayRef({3, 6, 6}));
  CHECK(at::equal(apply(RandomResizedCrop{1}, line), line.narrow(2, 49, 1)));
  CHECK(apply(RandomResizedCrop{6}, image_of(100, 1)).sizes() == at::IntArrayRef({3, 6, 6}));
}

TEST_CASE("a picture that would be scaled to too many pixels is rejected", "[image]") {
  const at::Tensor line = at::full({3, 1, 2000000}, 7, at::kByte);
  CHECK_THAT(test::error_of<DataError>([&] { apply(Resize{256}, line); }), contains("512000000 x 256"));
}

TEST_CASE("transforms are values, and any callable is one", "[image]") {
  const ImageTransforms transforms = {
      [](const at::Tensor& image, SampleRandom& random) { return image + random.below(1) + 1; },
      RandomFlip{1}, CenterCrop{1}};
  at::Tensor image = image_of(1, 3);
  SampleRandom random = random_of(0);
  for (const ImageTransform& transform : transforms) image = transform(image, random);
  CHECK(bytes(image) == Bytes{10, 80, 150});
  CHECK(training_transforms(32).size() == 2);
  image = image_of(70, 90);
  for (const ImageTransform& transform : evaluation_transforms(56)) image = transform(image, random);
  CHECK(image.sizes() == at::IntArrayRef({3, 56, 56}));
}
