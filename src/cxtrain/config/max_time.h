#pragma once

#include <cstdint>
#include <string_view>

#include "cxtrain/config/parsed.h"

namespace cxtrain {

/// Seconds of "DD:HH:MM:SS" (Lightning's `max_time`) or "HH:MM:SS". A part may be larger than a clock shows:
/// "00:36:00:00" is a day and a half.
Parsed<std::int64_t> parse_max_time(std::string_view text);

}  // namespace cxtrain
