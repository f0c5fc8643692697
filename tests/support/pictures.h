#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "support/temp_dir.h"

/// Pictures that tests write.
namespace cxtrain::test {

/// The value of a pixel in a channel (0: red, 1: green, 2: blue).
using Pixel = std::function<int(int y, int x, int channel)>;

inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

inline std::string png_chunk(const std::string& name, const std::string& content) {
  const std::string checked = name + content;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + checked +
         big_endian(static_cast<std::uint32_t>(sum));
}

/// A PNG file of 8 bits. `channels`: 1 (grey), 3, or 4 (the fourth is the opacity). `claimed_height` and
/// `claimed_width`: what the header says if the picture is a lie.
inline std::string png_file(int height, int width, const Pixel& pixel, int channels = 3,
                            std::uint32_t claimed_height = 0, std::uint32_t claimed_width = 0) {
  std::string rows;
  for (int y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) rows += static_cast<char>(pixel(y, x, c));
    }
  }
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
           static_cast<uLong>(rows.size()));
  packed.resize(size);
  const char type = channels == 1 ? 0 : channels == 3 ? 2 : 6;
  const std::string header =
      big_endian(claimed_height > 0 ? claimed_width : static_cast<std::uint32_t>(width)) +
      big_endian(claimed_height > 0 ? claimed_height : static_cast<std::uint32_t>(height)) + '\x08' + type +
      std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

/// Writes DIR/SPLIT/dark/I.png and DIR/SPLIT/light/I.png, pictures that differ a little in content and size.
inline void write_classes(const TempDir& dir, const std::string& split, int files_of_each) {
  for (const std::string name : {"dark", "light"}) {
    std::filesystem::create_directories(dir.file(split + "/" + name));
    for (int i = 0; i < files_of_each; ++i) {
      dir.write(split + "/" + name + "/" + std::to_string(i) + ".png",
                png_file(20 + i % 5, 24 - i % 3, [&](int y, int x, int c) {
                  return (name == "dark" ? 30 : 180) + (y * 3 + x * 2 + c * 5 + i * 7) % 60;
                }));
    }
  }
}

}  // namespace cxtrain::test
