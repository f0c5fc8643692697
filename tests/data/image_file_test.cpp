#include "cxtrain/data/image_file.h"

#include <ATen/ops/equal.h>
#include <sys/stat.h>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/pictures.h"
#include "support/skip.h"

namespace {

using namespace cxtrain;
using test::code;
using test::contains;
using test::error_of;
using test::TempDir;

int stripes(int y, int x, int c) { return (y * 40 + x * 9 + c * 70) % 256; }

std::vector<int> pixel(const at::Tensor& image, std::int64_t y, std::int64_t x) {
  std::vector<int> values;
  for (std::int64_t c = 0; c < image.size(0); ++c) values.push_back(image[c][y][x].item<int>());
  return values;
}

std::string refused(const std::string& path) {
  return error_of<DataError>([&] { read_image(path); });
}

}  // namespace

TEST_CASE("a PNG file is read as red, green and blue", "[image]") {
  const TempDir dir;
  const int channels = GENERATE(1, 3, 4);
  const std::string path = dir.write("a.png", test::png_file(5, 7, stripes, channels));
#ifdef CXTRAIN_PNG
  const at::Tensor image = read_image(path);
  CAPTURE(channels);
  REQUIRE(image.sizes() == at::IntArrayRef({3, 5, 7}));
  CHECK(image.scalar_type() == at::kByte);
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 7; ++x) {
      const auto channel = [&](int c) { return stripes(y, x, channels == 1 ? 0 : c); };
      REQUIRE(pixel(image, y, x) == std::vector<int>{channel(0), channel(1), channel(2)});
    }
  }
#else
  CHECK_THAT(refused(path), contains("libpng-dev"));
#endif
}

#ifdef CXTRAIN_PNG

TEST_CASE("the content decides what a file is, not its name", "[image]") {
  const TempDir dir;
  CHECK(read_image(dir.write("a.jpg", test::png_file(2, 3, stripes))).size(2) == 3);
}

TEST_CASE("a damaged PNG file is rejected with its name", "[image]") {
  const TempDir dir;
  const std::string whole =
      test::png_file(40, 50, [](int y, int x, int c) { return (y * x * 31 + c) % 251; });
  std::string content;
  SECTION("truncated") { content = whole.substr(0, GENERATE(9U, 20U, 33U, 60U, 400U)); }
  SECTION("another byte in the pixels") {
    content = whole;
    content[80] = static_cast<char>(content[80] ^ 1);
  }
  SECTION("a header only") { content = whole.substr(0, 33) + test::png_chunk("IEND", ""); }
  SECTION("pixels for fewer rows than the header says") {
    content = test::png_file(4, 5, stripes, 3, /*claimed_height=*/400, /*claimed_width=*/500);
  }
  const std::string message = refused(dir.write("a.png", content));
  CHECK_THAT(message, contains("a.png"));
  CHECK_THAT(message, contains(code(MessageCode::bad_data)));
}

TEST_CASE("a PNG file that claims to be huge is rejected before memory is taken for it", "[image]") {
  const TempDir dir;
  struct Claim {
    std::uint32_t height, width;
  };
  const Claim claim = GENERATE(values<Claim>({{60000, 60000}, {1000000, 1000000}, {0x7fffffff, 0x7fffffff}}));
  const std::string path = dir.write("a.png", test::png_file(1, 1, stripes, 3, claim.height, claim.width));
  CAPTURE(claim.height);
  const std::string message = refused(path);
  CHECK_THAT(message, contains("a.png"));
  if (claim.height == 60000) {
    CHECK_THAT(message, contains("60000 x 60000"));
    CHECK_THAT(message, contains("89478485"));
  }
}

#endif

TEST_CASE("what is not a picture is rejected with what it is", "[image]") {
  const TempDir dir;
  CHECK_THAT(refused(dir.write("a.jpg", "GIF89a......")), contains("0x47494638"));
  CHECK_THAT(refused(dir.write("b.jpg", "")), contains("is empty"));
  CHECK_THAT(refused(dir.write("line\nbreak.jpg", "text")), contains("line?break.jpg' is neither"));
  CHECK_THAT(refused(dir.file("missing.jpg")), contains(code(MessageCode::file_failed)));
  CHECK_THAT(refused(dir.path()), contains("a directory"));
  REQUIRE(mkfifo(dir.file("pipe.jpg").c_str(), 0600) == 0);
  CHECK_THAT(refused(dir.file("pipe.jpg")), contains("a pipe"));
}
