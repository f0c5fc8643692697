#pragma once

#include <string>

namespace cxtrain {

/// The whole of a regular file, unpacked where it is gzipped. Throws DataError naming the file for one that
/// cannot be read, for pipes and devices, for a gzip stream that is truncated or damaged, and for one that
/// unpacks to more than half of the machine's memory. What follows a gzip stream and is none itself is
/// ignored, as zlib and gzip do (tapes and transfers fill up with zeros).
std::string read_file(const std::string& path);

}  // namespace cxtrain
