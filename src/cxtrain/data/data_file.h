#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

/// Data files: how to find and read them.
namespace cxtrain {

/// Returns the content of a regular file, decompressed if it is gzipped. Throws DataError, with the file's
/// name, if the file cannot be read, is a pipe or a device, or is a truncated or damaged gzip stream. Also
/// throws if the content exceeds half of the machine's memory. Bytes after a gzip stream that are not a gzip
/// stream are ignored, as zlib and gzip do (tapes and transfers pad with zeros).
std::string read_file(const std::string& path);

/// Returns the folders that may hold the data that comes with the program, in the order of the search:
///
/// * `environment` (the value of $CXTRAIN_DATA), if given.
/// * `../share/cxtrain/data` as seen from the program's folder: the place in an installation.
/// * `.deps/data` in a checkout: the place in a build tree. The checkout is the first folder that has a
///   CMakeLists.txt of this user or of root, from the program's folder up to the fifth folder above it.
std::vector<std::string> data_folders(const std::string& program,
                                      const std::optional<std::string>& environment);

/// Returns the path of the file in the first of `folders` that has it. Throws DataError with every path
/// tried.
std::string find_data_file(const std::string& name, std::span<const std::string> folders);

/// Searches the `data_folders` of this process.
std::string find_data_file(const std::string& name);

}  // namespace cxtrain
