#include "cxtrain/base/class_name.h"

#include "cxtrain/base/demangled.h"

namespace cxtrain {

std::string class_name(const std::type_info& type) { return demangled(type.name()); }

}  // namespace cxtrain
