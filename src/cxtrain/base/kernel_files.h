#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

/// Small files of /proc and /sys.
namespace cxtrain {

/// Returns the text of a file without the blanks and line ends behind it; empty if the file cannot be read.
inline std::string kernel_text(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');  // which reports a failed read by its state; iterators of a buffer throw
  return text.substr(0, text.find_last_not_of(" \n") + 1);
}

/// Returns the number at the beginning of a file; absent if the file begins with no number or cannot be read.
inline std::optional<std::int64_t> kernel_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

}  // namespace cxtrain
