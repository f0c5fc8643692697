#include "gan/grey_png.h"

#include <zlib.h>

#include <cstdint>
#include <stdexcept>

namespace {

void add_number(std::string& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
}

/// A chunk: length, type, data, CRC-32 over type and data.
void add_chunk(std::string& png, const std::string& type, const std::string& data) {
  const std::string body = type + data;
  add_number(png, static_cast<std::uint32_t>(data.size()));
  png += body;
  add_number(png, static_cast<std::uint32_t>(
                      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  if (compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
               bytes.size()) != Z_OK)
    throw std::runtime_error("zlib could not compress a picture");
  packed.resize(size);
  return packed;
}

}  // namespace

std::string grey_png(const at::Tensor& pixels) {
  const at::Tensor bytes =
      pixels.detach().to(at::kCPU, at::kFloat).clamp(0, 1).mul(255).round().to(at::kByte).contiguous();
  const std::int64_t height = bytes.size(0), width = bytes.size(1);
  const auto* row = reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>());
  std::string rows;
  for (std::int64_t y = 0; y < height; ++y, row += width) {
    rows += '\0';  // no filter
    rows.append(row, static_cast<std::size_t>(width));
  }
  std::string header;
  add_number(header, static_cast<std::uint32_t>(width));
  add_number(header, static_cast<std::uint32_t>(height));
  header += std::string({8, 0, 0, 0, 0});  // bits, grey, deflate, filters, not interlaced
  std::string png = "\x89PNG\r\n\x1a\n";
  add_chunk(png, "IHDR", header);
  add_chunk(png, "IDAT", deflated(rows));
  add_chunk(png, "IEND", "");
  return png;
}

at::Tensor grid(const at::Tensor& pictures, std::int64_t columns) {
  const std::int64_t height = pictures.size(1), width = pictures.size(2);
  return pictures.reshape({-1, columns, height, width}).transpose(1, 2).reshape({-1, columns * width});
}
