#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cxtrain {

/// The name that was probably meant by `typed`: the one with the fewest insertions, deletions, replacements
/// and swaps of neighbours (Damerau 1964, optimal string alignment). Empty when none is near: more than a
/// third of the letters would have to change.
std::string nearest_name(std::string_view typed, std::span<const std::string> names);

/// "did you mean 'x'?" for the nearest name, empty when none is near.
std::string did_you_mean(std::string_view typed, std::span<const std::string> names,
                         std::string_view prefix = "");

}  // namespace cxtrain
