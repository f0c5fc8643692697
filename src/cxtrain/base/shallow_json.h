#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace cxtrain {

/// The deepest nesting of JSON from a file that another program may have written. Code that copies a JSON
/// value recurses, and deeper nesting would exhaust the stack.
inline constexpr int kDeepestJson = 100;

/// Whether the brackets of a text are nested deeper than `kDeepestJson`, in one pass over the text. For a
/// text that is not JSON the result has no meaning.
inline bool is_nested_too_deeply(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepestJson) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

/// Parses a file's text that another program may have written. A text that is not JSON, or is nested deeper
/// than `kDeepestJson`, gives a discarded value, which is not an object. nlohmann's parser takes linear time
/// here; with a callback the parser takes quadratic time for an array of many objects.
template <class Json>
Json parse_shallow_json(std::string_view text) {
  if (is_nested_too_deeply(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace cxtrain
