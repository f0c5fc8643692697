#pragma once

#include <cstdio>
#include <string>

#include "support/catch.h"

namespace cxtrain::test {

/// Says that this case, or a part of it, cannot be checked here, so that it does not look as if it had been:
/// scripts/test.sh and scripts/gpu_check.sh count these lines.
inline void skip(const std::string& why) {
  std::fprintf(stderr, "skipped: %s: %s\n", Catch::getResultCapture().getCurrentTestName().c_str(),
               why.c_str());
}

}  // namespace cxtrain::test
