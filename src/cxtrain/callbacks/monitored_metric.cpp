#include "cxtrain/callbacks/monitored_metric.h"

#include "cxtrain/base/error.h"
#include "cxtrain/base/joined.h"
#include "cxtrain/metrics/metric_store.h"

namespace cxtrain {

void refuse_unlogged_metric(const Run& run, const std::string& follows) {
  const std::string known = joined(run.metrics().names());
  throw TrainingError(
      follows + ", but nothing of this name has been logged; logged: " + (known.empty() ? "nothing" : known),
      MessageCode::log_misuse);
}

}  // namespace cxtrain
