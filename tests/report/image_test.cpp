#include "cxtrain/report/image.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "cxtrain/base/error.h"
#include "cxtrain/data/image_file.h"
#include "cxtrain/report/png.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/pictures.h"

/// Images that are logged: their values, their grid, their PNG files.
namespace cxtrain {
namespace {

/// uint8 [C, H, W] with another value in each pixel and channel.
at::Tensor numbered(std::int64_t channels, std::int64_t height, std::int64_t width) {
  return at::arange(channels * height * width)
      .remainder(251)
      .to(at::kByte)
      .reshape({channels, height, width});
}

TEST_CASE("an image's PNG file is the one that zlib and the format's definition make", "[image]") {
  const int channels = GENERATE(1, 3);
  const at::Tensor image = numbered(channels, 5, 7);
  const test::Pixel pixel = [&](int y, int x, int c) { return image[c][y][x].item<int>(); };
  CHECK(to_png(image) == test::png_file(5, 7, pixel, channels));
}

#ifdef CXTRAIN_PNG

TEST_CASE("libpng reads the pixels of an image back", "[image]") {
  const test::TempDir dir;
  const std::int64_t channels = GENERATE(1, 3), height = GENERATE(1, 40), width = GENERATE(1, 300);
  CAPTURE(channels, height, width);
  const at::Tensor image = numbered(channels, height, width);
  CHECK(read_image(dir.write("a.png", to_png(image))).equal(image.expand({3, height, width})));
  // Any layout in memory.
  const at::Tensor turned = image.transpose(1, 2);
  CHECK(read_image(dir.write("b.png", to_png(turned))).equal(turned.expand({3, width, height})));
}

#endif

TEST_CASE("numbers from 0 to 1 become bytes as torchvision's save_image makes them", "[image]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // 0.1 * 255 = 25.5, which is rounded up; 0.3 * 255 is 76.50000114 in float32.
  const at::Tensor numbers =
      at::tensor({0.0, 1.0, 0.1, 0.3, 0.5, -0.2, 1.7, infinity, -infinity, nan}, at::kDouble);
  const at::Tensor bytes = at::tensor({0, 255, 26, 77, 128, 0, 255, 255, 0, 0}, at::kByte);
  CHECK(image_bytes("", numbers.reshape({2, 5})).equal(bytes.reshape({1, 2, 5})));
  CHECK(image_bytes("", numbers.to(at::kFloat).reshape({1, 5, 2})).equal(bytes.reshape({1, 5, 2})));
  const at::Tensor halves = at::tensor({0.0, 0.25, 0.5, 1.0});
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    CHECK(image_bytes("", halves.to(dtype).reshape({2, 2}))
              .equal(at::tensor({0, 64, 128, 255}, at::kByte).reshape({1, 2, 2})));
  }
  const at::Tensor trained = at::full({3, 2, 2}, 0.5).requires_grad_();
  CHECK_FALSE(image_bytes("", trained).requires_grad());
  CHECK(image_bytes("", numbered(3, 4, 6)).equal(numbered(3, 4, 6)));
}

TEST_CASE("several images become rows of 8 with 2 black pixels between them", "[image]") {
  const at::Tensor images = at::arange(1, 11).to(at::kByte).reshape({10, 1, 1, 1}).expand({10, 3, 4, 5});
  const at::Tensor grid = image_bytes("", images);
  REQUIRE(grid.sizes() == at::IntArrayRef({3, 2 * (4 + 2) + 2, 8 * (5 + 2) + 2}));
  at::Tensor expected = at::zeros_like(grid);
  for (std::int64_t i = 0; i < 10; ++i)
    expected.narrow(1, 2 + i / 8 * 6, 4).narrow(2, 2 + i % 8 * 7, 5).fill_(i + 1);
  CHECK(grid.equal(expected));
  CHECK(image_bytes("", images.narrow(0, 0, 3)).sizes() == at::IntArrayRef({3, 8, 23}));
  CHECK(image_bytes("", images.narrow(0, 4, 1)).equal(images[4]));  // one alone has no border
  // Of numbers, and of one channel.
  CHECK(image_bytes("", at::full({2, 1, 2, 2}, 1.0)).sum().item<int>() == 2 * 4 * 255);
}

TEST_CASE("what is not an image is rejected with its name, its shape and its dtype", "[image]") {
  struct Bad {
    at::Tensor tensor;
    std::string found;
  };
  const Bad bad = GENERATE(
      values<Bad>({{at::zeros({5}), "[5]"},
                   {at::zeros({}), "[]"},
                   {at::zeros({2, 4, 4}), "[2, 4, 4]"},
                   {at::zeros({4, 4, 3}), "[4, 4, 3]"},
                   {at::zeros({8, 4, 4, 3}), "[8, 4, 4, 3]"},
                   {at::zeros({1, 1, 1, 4, 4}), "[1, 1, 1, 4, 4]"},
                   {at::zeros({0, 3, 4, 4}), "[0, 3, 4, 4]"},
                   {at::zeros({3, 0, 4}), "[3, 0, 4]"},
                   {at::zeros({4, 4}, at::kLong), "Long"},
                   {at::zeros({4, 4}, at::kBool), "Bool"},
                   {at::zeros({4, 4}, at::kComplexFloat), "ComplexFloat"},
                   {at::Tensor(), "undefined"},
                   {at::zeros({1, 1, 1}, at::kByte).expand({1, 20000, 20000}), "400000000 pixels"}}));
  const std::string message =
      test::error_of<TrainingError>([&] { require_image("log_image(\"x\")", bad.tensor); });
  CHECK_THAT(message, test::contains("log_image(\"x\")") && test::contains(bad.found) &&
                          test::contains(test::code(MessageCode::log_misuse)));
  CHECK_THROWS_AS(to_png(bad.tensor), TrainingError);
}

}  // namespace
}  // namespace cxtrain
