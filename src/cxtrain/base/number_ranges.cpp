#include "cxtrain/base/number_ranges.h"

#include <charconv>
#include <cstddef>

namespace cxtrain {
namespace {

constexpr int kEnd = 1 << 16;

}  // namespace

int take_number(std::string_view& text) {
  int number = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return error == std::errc() ? number : -1;
}

std::string format_ranges(std::span<const int> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> parse_ranges(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty()) {
    const int first = take_number(text);
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text);
    }
    for (int number = first; first >= 0 && number <= last && number < kEnd; ++number)
      numbers.push_back(number);
    const std::size_t comma = text.find(',');
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return numbers;
}

std::optional<std::int64_t> number_of_digits(std::string_view text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || text[0] == '-') return std::nullopt;
  return value;
}

}  // namespace cxtrain
