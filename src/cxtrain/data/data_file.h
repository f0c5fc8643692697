#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

/// Files of data: where they are, and what is in them.
namespace cxtrain {

/// The whole of a regular file, unpacked where it is gzipped. Throws DataError naming the file for one that
/// cannot be read, for pipes and devices, for a gzip stream that is truncated or damaged, and for one that
/// unpacks to more than half of the machine's memory. What follows a gzip stream and is none itself is
/// ignored, as zlib and gzip do (tapes and transfers fill up with zeros).
std::string read_file(const std::string& path);

/// The folders in which data that comes with the program may lie, in the order of looking: `environment` (the
/// value of $CXTRAIN_DATA) where given; `.deps/data` beside the program and in the five folders above it,
/// which is where a build tree has it; `../share/cxtrain/data` as seen from the program, which is where it is
/// installed.
std::vector<std::string> data_folders(const std::string& program,
                                      const std::optional<std::string>& environment);

/// The path of the file in the first of `folders` that has it. Throws DataError listing every path tried.
std::string find_data_file(const std::string& name, std::span<const std::string> folders);

/// The same in the folders of this process.
std::string find_data_file(const std::string& name);

}  // namespace cxtrain
