#pragma once

#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/options.h"

namespace cxtrain {

/// Values that no hardware could make sense of: numbers out of their range, contradictions between two
/// options. Appends one problem for each. Pure.
void check_options(const Options& options, std::vector<Problem>& problems);

}  // namespace cxtrain
