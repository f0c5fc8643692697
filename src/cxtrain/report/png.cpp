#include "cxtrain/report/png.h"

#include <zlib.h>

#include <cstdint>
#include <new>

#include "cxtrain/report/image.h"

namespace cxtrain {
namespace {

void add_big_endian(std::string& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
}

/// A chunk: length, type, data, CRC-32 over type and data.
void add_chunk(std::string& png, const std::string& type, const std::string& data) {
  const std::string body = type + data;
  add_big_endian(png, static_cast<std::uint32_t>(data.size()));
  png += body;
  const auto* bytes = reinterpret_cast<const Bytef*>(body.data());
  add_big_endian(png, static_cast<std::uint32_t>(crc32(0, bytes, static_cast<uInt>(body.size()))));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  if (compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
               bytes.size()) != Z_OK)
    throw std::bad_alloc();  // the only failure if the result has room
  packed.resize(size);
  return packed;
}

}  // namespace

std::string to_png(const at::Tensor& image) {
  const at::Tensor pixels = image_bytes("to_png", image).permute({1, 2, 0}).contiguous();
  const std::int64_t height = pixels.size(0), width = pixels.size(1), channels = pixels.size(2);
  const auto* row = reinterpret_cast<const char*>(pixels.const_data_ptr<std::uint8_t>());
  const auto row_size = static_cast<std::size_t>(width * channels);
  std::string rows;
  rows.reserve(static_cast<std::size_t>(height) * (row_size + 1));
  for (std::int64_t y = 0; y < height; ++y, row += row_size) {
    rows += '\0';  // no filter
    rows.append(row, row_size);
  }
  std::string header;
  add_big_endian(header, static_cast<std::uint32_t>(width));
  add_big_endian(header, static_cast<std::uint32_t>(height));
  const char color_type = channels == 1 ? 0 : 2;
  header += std::string({8, color_type, 0, 0, 0});  // bits, type, deflate, filters, not interlaced
  std::string png = "\x89PNG\r\n\x1a\n";
  add_chunk(png, "IHDR", header);
  add_chunk(png, "IDAT", deflated(rows));
  add_chunk(png, "IEND", "");
  return png;
}

}  // namespace cxtrain
