#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace cxtrain {

/// Returns a number with its noun, whose plural ends in -s: "1 rank", "2 ranks".
std::string counted(std::integral auto number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace cxtrain
