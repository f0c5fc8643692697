#include "cxtrain/base/error.h"
#include "cxtrain/data/decode_image.h"

#ifdef CXTRAIN_PNG

#include <png.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cxtrain {
namespace {

/// libpng's simplified interface catches its own longjmp, and returns 0 if it fails.
class PngDecoder {
 public:
  explicit PngDecoder(std::string_view content) {
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image_, content.data(), content.size()) == 0) refuse();
    // 16 bits are read as those of 8 bits are, and not as linear light.
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  }
  ~PngDecoder() { png_image_free(&image_); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  std::int64_t height() const { return image_.height; }
  std::int64_t width() const { return image_.width; }

  void read(std::uint8_t* pixels) {
    const bool transparent = (image_.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    image_.format = transparent ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
    if (!transparent) return read_into(pixels);
    const std::size_t count = std::size_t{image_.width} * image_.height;
    std::vector<std::uint8_t> four(4 * count);
    read_into(four.data());
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t c = 0; c < 3; ++c) pixels[3 * i + c] = four[4 * i + c];
    }
  }

 private:
  void read_into(std::uint8_t* pixels) {
    if (png_image_finish_read(&image_, nullptr, pixels, 0, nullptr) == 0) refuse();
  }
  [[noreturn]] void refuse() const {
    throw DataError("is damaged: " + std::string(image_.message) + "; fetch it again, or remove it");
  }

  png_image image_{};
};

}  // namespace

bool has_png_decoder() { return true; }

void decode_png(std::string_view content, const MakePixels& make) {
  PngDecoder decoder(content);
  std::uint8_t* pixels = make(decoder.height(), decoder.width());
  decoder.read(pixels);
}

}  // namespace cxtrain

#else

namespace cxtrain {

bool has_png_decoder() { return false; }

void decode_png(std::string_view, const MakePixels&) {
  throw DataError(
      "is a PNG file, and this cxtrain was built without libpng; install libpng-dev (Debian) or libpng "
      "(conda), and build cxtrain again");
}

}  // namespace cxtrain

#endif
