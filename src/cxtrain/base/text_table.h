#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cxtrain {

/// Returns rows as lines of aligned columns, with two blanks between columns and no blanks at the end of a
/// line. Each line begins with `indent`. `to_the_right`: whether the texts of a column end at its right edge,
/// as numbers do; otherwise they begin at its left edge.
std::string aligned(const std::vector<std::vector<std::string>>& rows,
                    const std::function<bool(std::size_t column)>& to_the_right,
                    std::string_view indent = "");

}  // namespace cxtrain
