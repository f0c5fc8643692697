#include "cxtrain/config/max_time.h"

#include <algorithm>
#include <vector>

#include "cxtrain/config/parse_scalar.h"

namespace cxtrain {

Parsed<std::int64_t> parse_max_time(std::string_view text) {
  constexpr std::size_t kMostDigits = 6;  // days: 2,700 years; nothing can overflow
  const auto refused = Parsed<std::int64_t>::refused(
      "'" + std::string(text) + "' is not a time of the form DD:HH:MM:SS (a day and a half: 01:12:00:00)");
  std::vector<std::int64_t> parts;
  std::string_view rest = trim(text);
  while (true) {
    const std::string_view part = rest.substr(0, rest.find(':'));
    const bool digits = std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (part.empty() || !digits || part.size() > kMostDigits) return refused;
    parts.push_back(*parse_integer(part));
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  if (parts.size() == 3) parts.insert(parts.begin(), 0);
  if (parts.size() != 4) return refused;
  return Parsed<std::int64_t>::of(((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3]);
}

}  // namespace cxtrain
