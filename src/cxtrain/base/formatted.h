#pragma once

#include <string>

namespace cxtrain {

/// Returns what printf would write.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace cxtrain
