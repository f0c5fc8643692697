#include "cxtrain/callbacks/early_stopping.h"

#include <c10/util/StringUtil.h>

#include <cmath>
#include <limits>

#include "cxtrain/config/fields.h"
#include "cxtrain/metrics/metric_store.h"

namespace cxtrain {

EarlyStopping::EarlyStopping(Args args) : args_(std::move(args)) {
  require_fields(args_);
  begin();
}

void EarlyStopping::begin() {
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = args_.mode == MonitorMode::min ? infinity : -infinity;
  wait_ = 0;
  stopped_for_.clear();
}

void EarlyStopping::check(Run& run) {
  const std::optional<double> value = run.metrics().last_of_all_ranks(args_.monitor, run.world());
  if (!value) run.metrics().refuse_unlogged("early stopping monitors `" + args_.monitor + "`");
  if (args_.check_finite && !std::isfinite(*value))
    return stop(run, c10::str("early stopping: ", args_.monitor, " is ", *value));
  const bool better =
      args_.mode == MonitorMode::min ? *value < best_ - args_.min_delta : *value > best_ + args_.min_delta;
  if (better) {
    best_ = *value;
    wait_ = 0;
    return;
  }
  if (++wait_ < args_.patience) return;
  stop(run, c10::str("early stopping: ", args_.monitor, " has not improved on ", best_, " for ", wait_,
                     " checks"));
}

void EarlyStopping::on_save_checkpoint(StateDict& state) {
  state.set("best", best_);
  state.set("wait", wait_);
  state.set("patience", args_.patience);
  state.set("stopped_for", stopped_for_);
}

void EarlyStopping::on_load_checkpoint(const StateDict& state) {
  best_ = state.real("best");
  wait_ = state.integer("wait");
  // Who resumes with more patience wants to go on.
  const bool more_patient = args_.patience > state.integer("patience") && wait_ < args_.patience;
  stopped_for_ = more_patient ? std::string() : state.text("stopped_for");
}

}  // namespace cxtrain
