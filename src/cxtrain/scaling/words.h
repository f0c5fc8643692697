#pragma once

#include <cmath>
#include <string>

#include "cxtrain/base/formatted.h"

/// Numbers as the sentences of a study have them.
namespace cxtrain {

/// "21.3 ms".
inline std::string milliseconds_text(double seconds) { return formatted("%.3g ms", 1e3 * seconds); }

/// "85 %".
inline std::string percent_text(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

}  // namespace cxtrain
