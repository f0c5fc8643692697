#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace cxtrain {

/// How deep JSON may be nested that somebody else may have written: more would take the stack of whoever
/// copies the value.
inline constexpr int kDeepestJson = 100;

/// Whether the brackets of a JSON text are nested deeper than `kDeepestJson`. One pass; what is no JSON has
/// some answer.
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

/// JSON of a file that somebody else may have written. What is no JSON, or nested too deeply, gives a
/// discarded value, which is no object. (A parser with a callback takes quadratic time for an array of many
/// objects.)
template <class Json>
Json parse_shallow_json(std::string_view text) {
  if (is_nested_too_deeply(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace cxtrain
