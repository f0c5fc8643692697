#include "cxtrain/callbacks/callback.h"

#include <c10/util/Type.h>

#include <typeinfo>

namespace cxtrain {

std::string Callback::state_key() const {
  const Callback& self = *this;
  return c10::demangle(typeid(self).name());
}

}  // namespace cxtrain
