#pragma once

#include <string>

namespace cxtrain {

/// Returns the C++ name of a symbol of the linker; the symbol itself if it is of no C++ name.
std::string demangled(const char* symbol);

}  // namespace cxtrain
