#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cxtrain {

/// Where data that comes with the program may lie, in the order of looking: `environment` (the value of
/// $CXTRAIN_DATA) where given; `.deps/data` beside the program and in the five folders above it, which is
/// where a build tree has it; `../share/cxtrain/data` as seen from the program, which is where it is
/// installed.
std::vector<std::string> data_places(const std::string& program,
                                     const std::optional<std::string>& environment);

/// The first of `places` that has the file. Throws DataError listing every path tried.
std::string find_data_file(const std::string& name, std::span<const std::string> places);

/// The same for the places of this process.
std::string find_data_file(const std::string& name);

}  // namespace cxtrain
