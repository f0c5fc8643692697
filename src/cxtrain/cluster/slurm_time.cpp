#include "cxtrain/cluster/slurm_time.h"

#include <charconv>
#include <vector>

namespace cxtrain {

std::optional<std::int64_t> number_of_digits(std::string_view text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || text[0] == '-') return std::nullopt;
  return value;
}

std::optional<std::int64_t> seconds_of_time(std::string_view text) {
  const std::size_t dash = text.find('-');
  std::string_view rest = text;
  std::int64_t days = 0;
  if (dash != std::string_view::npos) {
    const auto number = number_of_digits(rest.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    rest.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (;;) {
    const std::size_t colon = rest.find(':');
    const auto number = number_of_digits(rest.substr(0, colon));
    if (!number || *number > 1'000'000) return std::nullopt;
    parts.push_back(*number);
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() > 3 || days > 1'000'000) return std::nullopt;
  // Without days: minutes, minutes:seconds or hours:minutes:seconds; with them, from the hours on.
  const bool from_hours = dash != std::string_view::npos || parts.size() == 3;
  std::int64_t unit = from_hours ? 3600 : 60, seconds = days * 86'400;
  for (const std::int64_t part : parts) {
    seconds += part * unit;
    unit /= 60;
  }
  return seconds;
}

}  // namespace cxtrain
