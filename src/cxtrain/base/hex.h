#pragma once

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

}  // namespace cxtrain
