#include "cxtrain/base/class_name.h"

#include <boost/core/demangle.hpp>

namespace cxtrain {

std::string class_name(const std::type_info& type) { return boost::core::demangle(type.name()); }

}  // namespace cxtrain
