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

bool EarlyStopping::at_epoch_end(const RunView& run) const {
  return options_.check_on_train_epoch_end.value_or(run.validates_at_epoch_end_only());
}

void EarlyStopping::on_validation_end(RunView& run) {
  if (!run.sanity_checking() && !at_epoch_end(run)) check(run);
}

void EarlyStopping::on_train_epoch_end(RunView& run) {
  if (at_epoch_end(run)) check(run);
}

void EarlyStopping::check(RunView& run) {
  const std::optional<double> value = run.metric_of_all_ranks(options_.monitor);
  if (!value) {
    std::string known;
    for (const std::string& name : run.metric_names()) known += (known.empty() ? "" : ", ") + name;
    throw TrainingError(
        "early stopping monitors `" + options_.monitor +
        "`, but nothing of this name has been logged; logged: " + (known.empty() ? "nothing" : known));
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
         << " checks";
  run.request_stop(reason.str());
}

}  // namespace cxtrain
