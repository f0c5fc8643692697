#pragma once

#include <string>

namespace cxtrain {

/// The name of this machine, as gethostname(2) gives it.
std::string hostname();

}  // namespace cxtrain
