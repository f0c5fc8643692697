#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

/// Decoders of pictures, for `read_image`. Either is compiled in if its library was found at the
/// configuration. Each throws DataError with a message that follows the name of the file: "is damaged: ...".
namespace cxtrain {

/// The most pixels of a picture: 256 MiB, Pillow's MAX_IMAGE_PIXELS.
inline constexpr std::int64_t kMaxPixels = (std::int64_t{256} << 20) / 3;

/// Returns memory for a picture: rows from top to bottom, three bytes (red, green, blue) for each pixel.
/// Throws DataError if the picture is too large. Called once, before anything of the picture is decoded.
using MakePixels = std::function<std::uint8_t*(std::int64_t height, std::int64_t width)>;

/// Whether the decoders were compiled in.
bool has_jpeg_decoder();
bool has_png_decoder();

/// With libjpeg-turbo, or the IJG's libjpeg. Grey and CMYK pictures become red, green and blue. A file that
/// ends early is an error; other damage that libjpeg repairs is not.
void decode_jpeg(std::string_view content, const MakePixels& make);

/// With libpng. Grey, palette and 16-bit pictures become 8-bit red, green and blue. Transparency is left out.
void decode_png(std::string_view content, const MakePixels& make);

}  // namespace cxtrain
