#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cxtrain {

/// The cells of a line of metrics.csv; a name may stand in quotes.
std::vector<std::string> split_csv_line(std::string_view line);

}  // namespace cxtrain
