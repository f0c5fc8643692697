#include "cxtrain/report/metric_logger.h"

#include <c10/util/Type.h>

#include <typeinfo>

namespace cxtrain {

std::string MetricLogger::state_key() const {
  const MetricLogger& self = *this;
  return c10::demangle(typeid(self).name());
}

}  // namespace cxtrain
