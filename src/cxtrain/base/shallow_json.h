#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace cxtrain {

/// JSON of a file that somebody else may have written. Values that lie deeper than `deepest` are left out:
/// they have no meaning to the reader, and nesting without an end would take the stack of whoever copies the
/// result. What is no JSON gives a discarded value, which is no object.
template <class Json>
Json parse_shallow_json(std::string_view text, int deepest) {
  const auto is_shallow = [deepest](int depth, typename Json::parse_event_t, Json&) {
    return depth <= deepest;
  };
  return Json::parse(text, is_shallow, /*allow_exceptions=*/false);
}

}  // namespace cxtrain
