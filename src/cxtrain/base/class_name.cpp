#include "cxtrain/base/class_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace cxtrain {

std::string class_name(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed), std::free);
  return failed == 0 ? name.get() : type.name();
}

}  // namespace cxtrain
