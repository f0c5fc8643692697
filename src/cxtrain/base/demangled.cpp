#include "cxtrain/base/demangled.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace cxtrain {

std::string demangled(const char* symbol) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &failed), std::free);
  return failed == 0 ? name.get() : symbol;
}

}  // namespace cxtrain
