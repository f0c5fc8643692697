#include "cxtrain/data/image_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/text.h"
#include "cxtrain/data/decode_image.h"

namespace cxtrain {
namespace {

/// More than an encoder makes of so many pixels of 16 bits.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

constexpr std::string_view kJpegBegins = "\xff\xd8\xff", kPngBegins = "\x89PNG\r\n\x1a\n";

void require_decodable(std::int64_t height, std::int64_t width) {
  if (height > 0 && width > 0 && height <= kMaxPixels / width) return;
  throw DataError("has " + std::to_string(width) + " x " + std::to_string(height) +
                  " pixels, and from 1 to " + std::to_string(kMaxPixels) +
                  " pixels are read; make the picture smaller, or remove it");
}

at::Tensor decode_image(std::string_view content) {
  at::Tensor rows;
  const auto make = [&rows](std::int64_t height, std::int64_t width) {
    require_decodable(height, width);
    rows = at::empty({height, width, 3}, at::kByte);
    return rows.mutable_data_ptr<std::uint8_t>();
  };
  if (content.starts_with(kJpegBegins)) {
    decode_jpeg(content, make);
  } else if (content.starts_with(kPngBegins)) {
    decode_png(content, make);
  } else if (content.empty()) {
    throw DataError("is empty; fetch it again, or remove it");
  } else {
    throw DataError("is neither a JPEG nor a PNG file: it begins with 0x" + hex_of(content.substr(0, 4)) +
                    "; convert it, or remove it");
  }
  return rows.permute({2, 0, 1});
}

}  // namespace

std::vector<std::string> image_formats() {
  std::vector<std::string> formats;
  if (has_jpeg_decoder()) formats.emplace_back("JPEG");
  if (has_png_decoder()) formats.emplace_back("PNG");
  return formats;
}

at::Tensor read_image(const std::string& path) {
  const std::string content = read_small_file(path, kMaxFileBytes);
  try {
    return decode_image(content);
  } catch (const DataError& error) {
    std::string name = path;  // on one line
    std::ranges::replace(name, '\n', '?');
    throw DataError("'" + name + "' " + error.what(), error.message_code());
  }
}

}  // namespace cxtrain
