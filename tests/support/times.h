#pragma once

#include <cstddef>
#include <string>

namespace cxtrain::test {

/// How often a text says something.
inline std::size_t times(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace cxtrain::test
