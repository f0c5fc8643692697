#include "cxtrain/trainer/learning_rate_control.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/overrides.h"

namespace cxtrain {
namespace {

std::int64_t total_counts(const FitLimits& limits, Interval interval, std::int64_t frequency) {
  if (interval == Interval::step) return limits.total_steps() / frequency;
  return std::max<std::int64_t>(limits.max_epochs, 0);
}

}  // namespace

LearningRateControl::LearningRateControl(OptimizerSetup setup, std::string name, Optimizer& optimizer,
                                         TrainContext& context, const FitLimits& limits,
                                         std::int64_t frequency)
    : setup_(std::move(setup)),
      name_(std::move(name)),
      optimizer_(optimizer),
      context_(context),
      interval_(interval_of(setup_)),
      total_counts_(total_counts(limits, interval_, frequency)) {
  update();
}

void LearningRateControl::end_epoch() {
  if (const auto* plateau = std::get_if<PlateauSchedule>(&setup_.schedule)) {
    const std::optional<double> metric =
        context_.metrics.last_of_all_ranks(plateau->monitor, context_.parts.world);
    if (!metric) {
      throw TrainingError("the plateau schedule monitors `" + plateau->monitor +
                              "`, but nothing of this name was logged by the end of the epoch",
                          MessageCode::log_misuse);
    }
    plateau_.observe(*plateau, *metric);
  } else if (interval_ == Interval::step) {
    return;
  }
  update();
}

void LearningRateControl::update() {
  if (held_) return;
  const std::int64_t count = interval_ == Interval::step ? steps_ : context_.state.epoch;
  const double next = std::holds_alternative<PlateauSchedule>(setup_.schedule)
                          ? plateau_.factor
                          : schedule_factor(setup_.schedule, count, total_counts_);
  if (next == scheduled_) return;  // `set` holds until the schedule moves
  scheduled_ = next;
  set_factor(next);
}

void LearningRateControl::set(double lr) {
  double base = learning_rate(setup_);
  // The optimizer has no group without parameters.
  const auto first = std::ranges::find_if(
      setup_.groups, [](const ParameterGroup& group) { return !group.parameters.empty(); });
  if (first != setup_.groups.end()) base = first->lr.value_or(base);
  if (base <= 0) throw TrainingError("optimizer " + name_ + ": set_lr needs a base learning rate above 0");
  set_factor(lr / base);
}

void LearningRateControl::save(StateDict& state) const {
  state.set("factor", factor_);
  if (scheduled_) state.set("scheduled", *scheduled_);
  state.set("held", held_);
  state.set("steps", steps_);
  state.set("plateau_factor", plateau_.factor);
  state.set("plateau_best", plateau_.best);
  state.set("plateau_has_best", plateau_.has_best);
  state.set("plateau_bad_epochs", plateau_.bad_epochs);
}

void LearningRateControl::load(const StateDict& state) {
  plateau_ = {.factor = state.real("plateau_factor"),
              .best = state.real("plateau_best"),
              .has_best = state.boolean("plateau_has_best"),
              .bad_epochs = state.integer("plateau_bad_epochs")};
  held_ = state.boolean("held");
  // An earlier checkpoint has one optimizer, which stepped in each step of the fit.
  steps_ = state.has("steps") ? state.integer("steps") : context_.state.global_step;
  scheduled_ = state.has("scheduled") ? std::optional(state.real("scheduled")) : std::nullopt;
  set_factor(state.real("factor"));
}

}  // namespace cxtrain
