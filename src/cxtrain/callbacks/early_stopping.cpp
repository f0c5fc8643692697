#include "cxtrain/callbacks/early_stopping.h"

#include <c10/util/StringUtil.h>

#include <cmath>
#include <limits>

#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/monitored_metric.h"
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

bool EarlyStopping::at_epoch_end(const Run& run) const {
  return args_.check_on_train_epoch_end.value_or(run.progress().validates_at_epoch_end_only);
}

void EarlyStopping::on_validation_end(Run& run) {
  if (!run.progress().sanity_checking && !at_epoch_end(run)) check(run);
}

void EarlyStopping::on_train_epoch_end(Run& run) {
  if (at_epoch_end(run) && run.progress().epoch_is_complete) check(run);
}

void EarlyStopping::check(Run& run) {
  const std::optional<double> value = run.metrics().last_of_all_ranks(args_.monitor, run.world());
  if (!value) refuse_unlogged_metric(run, "early stopping monitors `" + args_.monitor + "`");
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

void EarlyStopping::stop(Run& run, std::string reason) {
  stopped_for_ = reason;
  run.request_stop(std::move(reason), RequestedBy::all_ranks);
}

void EarlyStopping::setup(Run&, Stage stage) {
  if (stage == Stage::fit) begin();
}

void EarlyStopping::on_train_start(Run& run) {
  if (!stopped_for_.empty()) run.request_stop(stopped_for_, RequestedBy::all_ranks);
}

std::string EarlyStopping::state_key() const {
  return "EarlyStopping{monitor: " + args_.monitor + ", mode: " + std::string(word_of(args_.mode)) + "}";
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
