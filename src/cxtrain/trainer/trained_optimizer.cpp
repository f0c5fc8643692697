#include "cxtrain/trainer/trained_optimizer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/config/values.h"
#include "cxtrain/metrics/host_values.h"
#include "cxtrain/optim/clip.h"
#include "cxtrain/optim/overrides.h"
#include "cxtrain/optim/setup_arguments.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/tensor/norms.h"
#include "cxtrain/trainer/model_checks.h"
#include "cxtrain/trainer/optimization.h"

namespace cxtrain {
namespace {

std::int64_t total_counts(const FitLimits& limits, Interval interval, std::int64_t frequency) {
  if (interval == Interval::step) return limits.total_steps() / frequency;
  return std::max<std::int64_t>(limits.max_epochs, 0);
}

}  // namespace

TrainedOptimizer::TrainedOptimizer(Optimization& all, TrainContext& context, const NamedOptimizer& entry,
                                   std::vector<NamedTensor> parameters,
                                   std::unique_ptr<TrainedParameters> trained, const FitLimits& limits)
    : all_(all),
      context_(context),
      name_(entry.name.empty() ? torch_name_of(entry.setup.optimizer) : entry.name),
      setup_(entry.setup),
      interval_(interval_of(entry.setup)),
      frequency_(entry.frequency),
      log_every_(limits.log_every),
      total_counts_(total_counts(limits, interval_, entry.frequency)),
      parameters_(std::move(parameters)),
      trained_(std::move(trained)),
      optimizer_(make_optimizer(setup_, parameters_, trained_->pieces())),
      skipped_steps_(context.parts.options.trainer.max_skipped_steps, context.parts.device) {
  update_learning_rate();
}

std::vector<LearningRate> TrainedOptimizer::learning_rates() const {
  const std::vector<double> own = optimizer_->learning_rates();
  if (own.size() == 1) return {{name_, own.front()}};
  std::vector<LearningRate> rates;
  for (std::size_t group = 0; group < own.size(); ++group)
    rates.push_back({name_ + "/pg" + std::to_string(group + 1), own[group]});
  return rates;
}

// ------------------------------------------------------------------ manual optimization

void TrainedOptimizer::minimize(const std::function<at::Tensor()>& loss) {
  all_.begin_manual(*this, Optimization::kMinimize);
  const Toggle only_these = toggle();
  const at::Tensor value = loss();
  require_trainable_loss(value);
  if (needs_closure()) {
    recompute_ = [&] {
      const AutocastGuard autocast(context_.parts.device.type(), all_.precision().autocast_dtype);
      const at::Tensor again = loss();
      backward(again);
      return again.detach();
    };
  }
  const AutocastPause pause(context_.parts.device.type());
  backward(value);
  if (all_.micro_step().last) update();
  recompute_ = nullptr;
}

void TrainedOptimizer::zero_grad() {
  all_.begin_manual(*this, Optimization::kZeroGrad);
  zero_gradients();
}

void TrainedOptimizer::step() {
  if (!all_.is_manual() && !all_.in_training_step()) return update();
  all_.begin_manual(*this, Optimization::kStep);
  const AutocastPause pause(context_.parts.device.type());
  update();
}

void TrainedOptimizer::follow(char operation) {
  if (operation == Optimization::kStep) return update();
  if (operation == Optimization::kZeroGrad) return zero_gradients();
  backward({});
  if (all_.micro_step().last) update();
}

Toggle TrainedOptimizer::toggle() { return Toggle(all_.trained_by_others(*this)); }

void TrainedOptimizer::zero_gradients() {
  all_.micro_step().observer.before_zero_grad();
  trained_->exchange().zero_gradients();
  complete_ = false;
}

void TrainedOptimizer::backward(const at::Tensor& loss) {
  complete_ = false;
  local_backward(loss, all_.micro_step(), trained_->exchange());
}

// ------------------------------------------------------------------ a step

void TrainedOptimizer::complete() {
  if (std::exchange(complete_, true)) return;
  trained_->synchronize();
  if (all_.scaler() == nullptr || !all_.is_manual()) return;
  all_.unscale(*trained_);
  check_overflow();
}

void TrainedOptimizer::check_overflow() {
  if (skipped_steps_.too_many(all_.scaler()->found_inf())) end_for_overflow();
}

void TrainedOptimizer::update() {
  complete();
  log_gradient_norms();
  context_.call(hooks::on_before_optimizer_step, *this);
  const TrainerOptions& options = context_.parts.options.trainer;
  context_.parts.module.configure_gradient_clipping(*this, options.gradient_clip_val,
                                                    options.gradient_clip_algorithm);
  GradScaler* const scaler = all_.scaler();
  Optimizer::StepInputs inputs{.gradients = trained_->gradients()};
  if (scaler != nullptr) inputs.found_inf = &scaler->found_inf();
  if (optimizer_->needs_closure()) {
    if (!recompute_) {
      throw TrainingError("optimizer " + name_ +
                          " evaluates the loss itself: step() has no loss; call minimize()");
    }
    inputs.closure = [&] {
      at::Tensor recomputed = recompute_();
      trained_->synchronize();
      return recomputed;
    };
  }
  optimizer_->step(inputs);
  if (scaler != nullptr && all_.is_manual()) scaler->update();
  trained_->publish();
  ++steps_;
  all_.note_step();
  end_step();
  if (interval_ == Interval::step) update_learning_rate();
}

/// If a gradient of this step is not finite: throws, on all ranks alike.
void TrainedOptimizer::end_for_overflow() {
  const std::vector<double> largest =
      HostValues(trained_->gradient_norms(std::numeric_limits<double>::infinity())).wait();
  const auto overflow =
      std::find_if(largest.begin(), largest.end(), [](double norm) { return !std::isfinite(norm); });
  if (overflow == largest.end()) return;
  const auto place = static_cast<std::size_t>(overflow - largest.begin());
  const TrainerOptions& options = context_.parts.options.trainer;
  throw AgreedError(
      ExitCode::failure, MessageCode::not_finite,
      context_.where() + ": the gradient of " + parameters_.at(place).name +
          " is not finite, and so were gradients of " + std::to_string(options.max_skipped_steps) +
          " steps in a row, which were skipped while the loss scale went down to " +
          format_real(all_.scaler()->current_scale()) +
          " (trainer.max_skipped_steps): the loss or the model's values overflow by themselves. A smaller "
          "learning rate or precision bf16-mixed may help; --detect_anomaly true finds the operation");
}

void TrainedOptimizer::log_gradient_norms() {
  const double order = context_.parts.options.trainer.track_grad_norm;
  if (order < 0 || log_every_ <= 0 || (context_.state.global_step + 1) % log_every_ != 0) return;
  const std::vector<at::Tensor> norms = trained_->gradient_norms(order);
  for (const auto& [name, norm] : named_norms(parameters_, norms, order)) {
    context_.metrics.log(all_.all().size() > 1 && name.ends_with("_total") ? name + "_" + name_ : name, norm,
                         {});
  }
}

std::span<const at::Tensor> TrainedOptimizer::gradients() {
  complete();
  return trained_->held_gradients();
}

void TrainedOptimizer::clip(double limit, GradientClipAlgorithm algorithm) {
  const std::span<const at::Tensor> held = gradients();
  const at::TensorList list{held.data(), held.size()};
  if (algorithm == GradientClipAlgorithm::value) {
    clip_by_value(list, limit);
  } else {
    clip_by_norm(list, total_norm(trained_->gradient_norms(2), 2), limit);
  }
}

// ------------------------------------------------------------------ the schedule

void TrainedOptimizer::end_epoch() {
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
  update_learning_rate();
}

void TrainedOptimizer::update_learning_rate() {
  if (held_) return;
  if (std::holds_alternative<PlateauSchedule>(setup_.schedule)) return set_lr_factor(plateau_.factor);
  const std::int64_t count = interval_ == Interval::step ? steps_ : context_.state.epoch;
  set_lr_factor(schedule_factor(setup_.schedule, count, total_counts_));
}

void TrainedOptimizer::set_lr(double lr) {
  const double own = learning_rate(setup_);
  const double base = setup_.groups.empty() ? own : setup_.groups.front().lr.value_or(own);
  if (base <= 0) throw TrainingError("optimizer " + name_ + ": set_lr needs a base learning rate above 0");
  set_lr_factor(lr / base);
}

void TrainedOptimizer::set_lr_factor(double factor) {
  lr_factor_ = factor;
  optimizer_->set_lr_factor(factor);
}

// ------------------------------------------------------------------ the state

void TrainedOptimizer::save(StateDict& state, const std::string& suffix) const {
  state.make_section("optimizer" + suffix).add(optimizer_->state());
  StateDict& schedule = state.make_section("lr_schedule" + suffix);
  schedule.set("factor", lr_factor_);
  schedule.set("held", held_);
  schedule.set("steps", steps_);
  schedule.set("plateau_factor", plateau_.factor);
  schedule.set("plateau_best", plateau_.best);
  schedule.set("plateau_has_best", plateau_.has_best);
  schedule.set("plateau_bad_epochs", plateau_.bad_epochs);
}

void TrainedOptimizer::load(const StateDict& state, const std::string& suffix) {
  optimizer_->load(state.section("optimizer" + suffix).pieces());
  const StateDict& schedule = state.section("lr_schedule" + suffix);
  plateau_ = {.factor = schedule.real("plateau_factor"),
              .best = schedule.real("plateau_best"),
              .has_best = schedule.boolean("plateau_has_best"),
              .bad_epochs = schedule.integer("plateau_bad_epochs")};
  held_ = schedule.boolean("held");
  // An earlier checkpoint has one optimizer, which stepped in each step of the fit.
  steps_ = schedule.has("steps") ? schedule.integer("steps") : context_.state.global_step;
  set_lr_factor(schedule.real("factor"));
}

}  // namespace cxtrain
