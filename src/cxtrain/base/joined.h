#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace cxtrain {

/// Returns the elements of a list as one text. `text_of` makes the text of an element.
template <class List, class TextOf = std::identity>
std::string joined(const List& list, std::string_view separator = ", ", TextOf text_of = {}) {
  std::string text;
  bool first = true;
  for (const auto& each : list) {
    if (!first) text += separator;
    text += text_of(each);
    first = false;
  }
  return text;
}

}  // namespace cxtrain
