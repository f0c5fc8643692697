#include "cxtrain/callbacks/callback.h"

#include <typeinfo>

#include "cxtrain/base/class_name.h"

namespace cxtrain {

std::string Callback::state_key() const {
  const Callback& self = *this;
  return class_name(typeid(self));
}

}  // namespace cxtrain
