#pragma once

#include <string>
#include <typeinfo>

namespace cxtrain {

/// Returns the name of a class as C++ spells it: "cxtrain::Ema::Args".
std::string class_name(const std::type_info& type);

}  // namespace cxtrain
