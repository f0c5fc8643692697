#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Numbers and switches as users type them. Pure; the whole text must be the value, blanks around it are
/// ignored.
namespace cxtrain {

std::string_view trim(std::string_view text);

/// Decimal, with an optional sign; nothing when it is not a whole number or does not fit.
std::optional<std::int64_t> parse_integer(std::string_view text);
/// Decimal or scientific ("3e-4"), "inf", "nan".
std::optional<double> parse_real(std::string_view text);
/// true, yes, on, 1 and false, no, off, 0, in any case.
std::optional<bool> parse_boolean(std::string_view text);

/// The shortest decimal that reads back as the same number.
std::string format_real(double value);

}  // namespace cxtrain
