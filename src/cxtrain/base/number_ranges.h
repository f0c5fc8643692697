#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cxtrain {

/// Numbers that are not negative, in their order, as taskset(1) lists cores: "0-3,8" for 0, 1, 2, 3, 8.
std::string format_ranges(std::span<const int> numbers);

/// The numbers of such a list, those below 65,536 (more cores than any machine has). What is not in that form
/// is left out.
std::vector<int> parse_ranges(std::string_view text);

/// Returns the number at the beginning of `text`, and cuts the number off; -1 if `text` begins with no
/// number.
int take_number(std::string_view& text);

/// A number of digits alone; absent: it is none, or too large.
std::optional<std::int64_t> number_of_digits(std::string_view text);

}  // namespace cxtrain
