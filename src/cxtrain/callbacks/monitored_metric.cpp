#include "cxtrain/callbacks/monitored_metric.h"

#include <map>

#include "cxtrain/base/error.h"
#include "cxtrain/base/joined.h"
#include "cxtrain/metrics/metric_store.h"

namespace cxtrain {

void refuse_unlogged_metric(const Run& run, const std::string& follows) {
  const std::map<std::string, double> logged = run.metrics().all();
  const std::string known = joined(logged, ", ", [](const auto& metric) { return metric.first; });
  throw TrainingError(
      follows + ", but nothing of this name has been logged; logged: " + (known.empty() ? "nothing" : known),
      MessageCode::log_misuse);
}

}  // namespace cxtrain
