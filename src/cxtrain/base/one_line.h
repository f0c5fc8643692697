#pragma once

#include <string_view>

namespace cxtrain {

/// Returns whether a text can be a name: one line that is not empty.
inline bool is_one_line(std::string_view text) {
  return !text.empty() && text.find('\n') == std::string_view::npos;
}

}  // namespace cxtrain
