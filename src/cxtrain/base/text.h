#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Texts for people, out of numbers, bytes, lists and tables.
namespace cxtrain {

/// Returns what printf would write.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

/// Returns a number with its noun, whose plural ends in -s: "1 rank", "2 ranks".
std::string counted(std::integral auto number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

/// Returns a number of bytes: "0.31 MB", "254 MB", "12.9 GB".
inline std::string readable_bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return value >= 1e9 ? formatted("%.3g GB", value / 1e9) : formatted("%.3g MB", value / 1e6);
}

/// Returns a time: "21.3 ms".
inline std::string milliseconds_text(double seconds) { return formatted("%.3g ms", 1e3 * seconds); }

/// Returns a share: "85 %".
inline std::string percent_text(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

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

/// Returns rows as lines of aligned columns, with two blanks between columns and no blanks at the end of a
/// line. Each line begins with `indent`. `to_the_right`: whether the texts of a column end at its right edge,
/// as numbers do; otherwise they begin at its left edge.
std::string aligned(const std::vector<std::vector<std::string>>& rows,
                    const std::function<bool(std::size_t column)>& to_the_right,
                    std::string_view indent = "");

/// Returns whether a text can be a name: one line that is not empty.
inline bool is_one_line(std::string_view text) {
  return !text.empty() && text.find('\n') == std::string_view::npos;
}

}  // namespace cxtrain
