#include "cxtrain/config/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace cxtrain {
namespace {

constexpr std::size_t kLongestTypo = 100;  // the time grows with the product of two lengths

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before(width), previous(width), current(width);
  for (std::size_t j = 0; j < width; ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t replace = previous[j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      current[j] = std::min({replace, previous[j] + 1, current[j - 1] + 1});
      const bool swapped =
          i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view typed, std::span<const std::string> names) {
  if (typed.size() > kLongestTypo) return "";
  std::string nearest;
  std::size_t fewest = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : names) {
    // A typo changes letters; replacing a whole short word is another word.
    const std::size_t distance = edit_distance(typed, name);
    if (distance < fewest && distance < std::max(typed.size(), name.size())) {
      fewest = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> names,
                         std::string_view prefix) {
  const std::string nearest = nearest_name(typed, names);
  return nearest.empty() ? "" : "did you mean " + std::string(prefix) + nearest + "?";
}

}  // namespace cxtrain
