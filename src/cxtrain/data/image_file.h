#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace cxtrain {

/// Returns the formats that `read_image` reads in this build, of JPEG and PNG.
std::vector<std::string> image_formats();

/// Returns the picture in a JPEG or PNG file: uint8 [3, height, width] of red, green and blue, with the
/// channels last in memory. The first bytes of the file decide the format, not its name. Grey pictures have
/// three equal channels. Transparency and the camera's orientation (EXIF) are ignored, as torchvision's
/// ImageFolder ignores them.
///
/// Throws DataError, with the path, if the file cannot be read, is damaged or of another format, or has more
/// than 89,478,485 pixels (256 MiB: Pillow's MAX_IMAGE_PIXELS). Also throws if cxtrain was built without
/// libjpeg or libpng. Threads may call it at once.
at::Tensor read_image(const std::string& path);

}  // namespace cxtrain
