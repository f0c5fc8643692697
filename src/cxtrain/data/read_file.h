#pragma once

#include <string>

namespace cxtrain {

/// A whole file, unpacked where it is gzipped. Throws DataError naming the file for one that cannot be read,
/// and for a gzip stream that is truncated or damaged.
std::string read_file(const std::string& path);

}  // namespace cxtrain
