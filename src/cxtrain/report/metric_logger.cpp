#include "cxtrain/report/metric_logger.h"

#include <typeinfo>

#include "cxtrain/base/class_name.h"

namespace cxtrain {

std::string MetricLogger::state_key() const {
  const MetricLogger& self = *this;
  return class_name(typeid(self));
}

}  // namespace cxtrain
