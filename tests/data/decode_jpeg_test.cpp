#include "cxtrain/base/error.h"
#include "cxtrain/data/image_file.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

#ifdef CXTRAIN_JPEG

#include <ATen/ops/equal.h>

#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

namespace {

using namespace cxtrain;
using test::code;
using test::contains;
using test::error_of;
using test::TempDir;

struct Encoded {
  int height = 24, width = 40;
  J_COLOR_SPACE space = JCS_RGB;
  bool progressive = false;
};

/// Slow gradients, which survive the encoding nearly unchanged.
int gradient(int y, int x, int c) { return 40 + 3 * y + 2 * x + 10 * c; }

std::string jpeg_file(const Encoded& what) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  const int channels = what.space == JCS_GRAYSCALE ? 1 : what.space == JCS_CMYK ? 4 : 3;
  info.image_width = static_cast<JDIMENSION>(what.width);
  info.image_height = static_cast<JDIMENSION>(what.height);
  info.input_components = channels;
  info.in_color_space = what.space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  if (what.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> row(static_cast<std::size_t>(what.width * channels));
  for (int y = 0; y < what.height; ++y) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const int c = static_cast<int>(i) % channels;
      const int value = c == 3 ? 128 : gradient(y, static_cast<int>(i) / channels, c);
      row[i] = static_cast<unsigned char>(value);
    }
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string content(reinterpret_cast<char*>(memory), size);
  std::free(memory);
  return content;
}

std::string refused_jpeg(const TempDir& dir, const std::string& content) {
  const std::string path = dir.write("a.jpg", content);
  return error_of<DataError>([&] { read_image(path); });
}

}  // namespace

TEST_CASE("a JPEG file is read as red, green and blue", "[image]") {
  const TempDir dir;
  Encoded what;
  what.space = GENERATE(JCS_RGB, JCS_GRAYSCALE, JCS_CMYK);
  what.progressive = GENERATE(false, true);
  const at::Tensor image = read_image(dir.write("a.jpg", jpeg_file(what)));
  CAPTURE(what.space, what.progressive);
  REQUIRE(image.sizes() == at::IntArrayRef({3, 24, 40}));
  CHECK(image.scalar_type() == at::kByte);
  for (int y = 0; y < 24; y += 5) {
    for (int x = 0; x < 40; x += 7) {
      for (int c = 0; c < 3; ++c) {
        int expected = gradient(y, x, what.space == JCS_GRAYSCALE ? 0 : c);
        if (what.space == JCS_CMYK) expected = expected * 128 / 255;
        REQUIRE(std::abs(image[c][y][x].item<int>() - expected) <= 4);
      }
    }
  }
}

TEST_CASE("a damaged JPEG file is rejected with its name", "[image]") {
  const TempDir dir;
  const std::string whole = jpeg_file({.progressive = GENERATE(false, true)});
  std::string content;
  SECTION("truncated") { content = whole.substr(0, whole.size() * GENERATE(1, 20, 50, 90, 98) / 100 + 3); }
  SECTION("without tables") { content = whole.substr(0, 20) + whole.substr(whole.find("\xff\xda")); }
  const std::string message = refused_jpeg(dir, content);
  CHECK_THAT(message, contains("a.jpg' is damaged: "));
  CHECK_THAT(message, contains(code(MessageCode::bad_data)));
}

TEST_CASE("no byte of a JPEG file that is changed harms more than its picture", "[image]") {
  const TempDir dir;
  const std::string whole = jpeg_file({.height = 16, .width = 16, .progressive = true});
  int read = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string content = whole;
    content[i] = static_cast<char>(content[i] ^ (i % 2 == 0 ? 0xff : 0x10));
    if (refused_jpeg(dir, content).empty()) ++read;
  }
  CHECK(read > 0);  // libjpeg repairs
}

TEST_CASE("a JPEG file that claims to be huge is rejected before memory is taken for it", "[image]") {
  const TempDir dir;
  std::string content = jpeg_file({.progressive = true});
  const std::size_t frame = content.find("\xff\xc2");
  REQUIRE(frame != std::string::npos);
  content.replace(frame + 5, 4, "\xea\x60\xea\x60");  // 60000 x 60000
  CHECK_THAT(refused_jpeg(dir, content), contains("60000 x 60000 pixels"));
}

TEST_CASE("a JPEG file of thousands of scans is rejected", "[image]") {
  const TempDir dir;
  const std::string whole = jpeg_file({.space = JCS_GRAYSCALE, .progressive = true});
  // The last scan refines a bit; once more refines nothing, in the time that a pass over the picture takes.
  const std::size_t last = whole.rfind("\xff\xda"), end = whole.size() - 2;
  std::string content = whole.substr(0, end);
  for (int i = 0; i < 600; ++i) content += whole.substr(last, end - last);
  content += whole.substr(end);
  CHECK_THAT(refused_jpeg(dir, content), contains("500 scans"));
}

#else

TEST_CASE("a JPEG file is rejected without libjpeg, with the package", "[image]") {
  const cxtrain::test::TempDir dir;
  const std::string path = dir.write("a.jpg", "\xff\xd8\xff");
  CHECK_THAT(cxtrain::test::error_of<cxtrain::DataError>([&] { cxtrain::read_image(path); }),
             cxtrain::test::contains("libjpeg-dev"));
}

#endif
