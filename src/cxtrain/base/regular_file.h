#pragma once

#include <cstddef>
#include <string>

#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {

/// Opens a file for reading without ever waiting. Throws DataError, naming the path and what lies there, for
/// anything but a regular file: a pipe, a socket, a terminal or a device might never end, or never begin.
FileDescriptor open_regular_file(const std::string& path);

/// The whole of a regular file that is expected to be small. Throws DataError as above, and for one of more
/// than `most` bytes.
std::string read_small_file(const std::string& path, std::size_t most);

}  // namespace cxtrain
