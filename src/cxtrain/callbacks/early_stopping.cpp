#include "cxtrain/callbacks/early_stopping.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "cxtrain/base/error.h"

namespace cxtrain {

EarlyStopping::EarlyStopping(Options options) : options_(std::move(options)) {
  if (options_.mode != "min" && options_.mode != "max") {
    throw ConfigError("callbacks.early_stopping_mode", "`" + options_.mode + "` is not min or max");
  }
  if (options_.patience < 0) throw ConfigError("callbacks.early_stopping_patience", "cannot be negative");
  if (options_.min_delta < 0) throw ConfigError("callbacks.early_stopping_min_delta", "cannot be negative");
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.mode == "min" ? infinity : -infinity;
}

void EarlyStopping::on_validation_end(RunView& run) {
  if (run.sanity_checking()) return;
  const std::optional<double> value = run.metric(options_.monitor);
  if (!value) {
    throw TrainingError("early stopping monitors `" + options_.monitor +
                        "`, but the model logged nothing of this name by the end of validation");
  }
  std::ostringstream reason;
  if (options_.check_finite && !std::isfinite(*value)) {
    reason << "early stopping: " << options_.monitor << " is " << *value;
    return run.request_stop(reason.str());
  }
  const bool better =
      options_.mode == "min" ? *value < best_ - options_.min_delta : *value > best_ + options_.min_delta;
  if (better) {
    best_ = *value;
    wait_ = 0;
    return;
  }
  if (++wait_ < options_.patience) return;
  reason << "early stopping: " << options_.monitor << " has not improved on " << best_ << " for " << wait_
         << " validations";
  run.request_stop(reason.str());
}

}  // namespace cxtrain
