#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cxtrain {

/// Returns two hexadecimal digits for each byte: "0a1f".
inline std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    digits += kDigits[value >> 4U];
    digits += kDigits[value & 15U];
  }
  return digits;
}

/// Returns the digits of a UUID's 16 bytes in its five groups: "8a3c0d52-1f6e-4b7a-9c1d-2e3f4a5b6c7d".
inline std::string uuid_text(std::string_view bytes) {
  std::string text = hex_of(bytes);
  for (const std::size_t dash : {20U, 16U, 12U, 8U}) text.insert(dash, 1, '-');
  return text;
}

}  // namespace cxtrain
