#include "cxtrain/trainer/optimization.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/values.h"
#include "cxtrain/metrics/host_values.h"
#include "cxtrain/optim/clip.h"
#include "cxtrain/optim/overrides.h"
#include "cxtrain/optim/setup_arguments.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/tensor/layout.h"
#include "cxtrain/tensor/norms.h"
#include "cxtrain/trainer/model_checks.h"

namespace cxtrain {
namespace {

at::TensorList list_of(std::span<const at::Tensor> tensors) { return {tensors.data(), tensors.size()}; }

}  // namespace

OptimizerSetup optimizer_setup(Module& module, const Options& options, std::optional<double> lr) {
  std::vector<Problem> problems;
  OptimizerSetup setup =
      apply_overrides(module.configure_optimizers(), options.optimizer, options.lr_scheduler, problems);
  if (!problems.empty()) throw ConfigError(problems);
  return lr ? with_learning_rate(std::move(setup), *lr) : setup;
}

Optimization::Optimization(TrainContext& context, const OptimizerSetup& setup,
                           std::unique_ptr<TrainedParameters> trained, const FitLimits& limits,
                           bool scale_gradients)
    : context_(context),
      setup_(setup),
      interval_(interval_of(setup)),
      log_every_(limits.log_every),
      total_counts_(interval_ == Interval::step ? limits.total_steps()
                                                : std::max<std::int64_t>(limits.max_epochs, 0)),
      trained_(std::move(trained)),
      optimizer_(make_optimizer(setup, trainable_parameters(context.parts.module), trained_->pieces())),
      skipped_steps_(context.parts.options.trainer.max_skipped_steps, context.parts.device) {
  if (scale_gradients) scaler_.emplace(context.parts.device);
  if (optimizer_->needs_closure() && (limits.accumulate > 1 || scale_gradients)) {
    throw ConfigError("optimizer",
                      "an optimizer that evaluates the loss itself works with neither "
                      "accumulate_grad_batches nor 16-mixed",
                      "use precision 32-true or bf16-mixed and no accumulation",
                      MessageCode::conflicting_options);
  }
  context_.progress.optimizer = this;
  update_learning_rate();
}

std::vector<LearningRate> Optimization::learning_rates() const {
  const std::string name = torch_name_of(setup_.optimizer);
  const std::vector<double> rates = optimizer_->learning_rates();
  if (rates.size() == 1) return {{name, rates.front()}};
  std::vector<LearningRate> named;
  for (const double rate : rates) named.push_back({name + "/pg" + std::to_string(named.size() + 1), rate});
  return named;
}

bool Optimization::step(Contribution own, Contribution of_all_ranks,
                        const std::function<at::Tensor()>& recompute) {
  trained_->synchronize();
  if (!of_all_ranks.loss) return false;
  if (of_all_ranks.skipped) leave_out_ranks_that_skipped(own);
  if (scaler_) {
    scaler_->unscale(trained_->held_gradients());
    trained_->agree_on_overflow(scaler_->found_inf());
    if (skipped_steps_.too_many(scaler_->found_inf())) end_for_overflow();
  }
  log_gradient_norms();
  context_.call(hooks::on_before_optimizer_step);
  clip();

  Optimizer::StepInputs inputs{.gradients = trained_->gradients()};
  if (scaler_) inputs.found_inf = &scaler_->found_inf();
  if (optimizer_->needs_closure()) {
    inputs.closure = [&] {
      at::Tensor recomputed = recompute();
      trained_->synchronize();
      return recomputed;
    };
  }
  optimizer_->step(inputs);
  if (scaler_) scaler_->update();
  trained_->publish();
  ++context_.state.global_step;
  if (interval_ == Interval::step) update_learning_rate();
  return true;
}

/// They have added zeros to the averages over all ranks.
void Optimization::leave_out_ranks_that_skipped(Contribution own) {
  World& world = context_.parts.world;
  double without_loss[] = {own.skipped ? 1.0 : 0.0};
  world.sum(without_loss);
  const at::NoGradGuard no_grad;
  const double factor = world.size() / (world.size() - without_loss[0]);
  for_each_dtype_and_device(list_of(trained_->held_gradients()),
                            [&](at::TensorList kind) { at::_foreach_mul_(kind, factor); });
}

/// Where a gradient of this step is not finite: throws, on all ranks alike.
void Optimization::end_for_overflow() {
  const std::vector<double> largest =
      HostValues(trained_->gradient_norms(std::numeric_limits<double>::infinity())).wait();
  const auto overflow =
      std::find_if(largest.begin(), largest.end(), [](double norm) { return !std::isfinite(norm); });
  if (overflow == largest.end()) return;
  const auto place = static_cast<std::size_t>(overflow - largest.begin());
  const TrainerOptions& options = context_.parts.options.trainer;
  throw AgreedError(
      ExitCode::failure, MessageCode::not_finite,
      context_.where() + ": the gradient of " + trainable_parameters(context_.parts.module).at(place).name +
          " is not finite, and so were gradients of " + std::to_string(options.max_skipped_steps) +
          " steps in a row, which were skipped while the loss scale went down to " +
          format_real(scaler_->current_scale()) +
          " (trainer.max_skipped_steps): the loss or the model's values overflow by themselves. A smaller "
          "learning rate or precision bf16-mixed may help; --detect_anomaly true finds the operation");
}

void Optimization::log_gradient_norms() {
  const double order = context_.parts.options.trainer.track_grad_norm;
  if (order < 0 || log_every_ <= 0 || (context_.state.global_step + 1) % log_every_ != 0) return;
  const std::vector<at::Tensor> norms = trained_->gradient_norms(order);
  for (const auto& [name, norm] : named_norms(trainable_parameters(context_.parts.module), norms, order)) {
    context_.metrics.log(name, norm, {});
  }
}

void Optimization::clip() {
  const TrainerOptions& options = context_.parts.options.trainer;
  if (!options.gradient_clip_val || *options.gradient_clip_val <= 0) return;
  const at::TensorList gradients = list_of(trained_->held_gradients());
  if (options.gradient_clip_algorithm == GradientClipAlgorithm::value) {
    clip_by_value(gradients, *options.gradient_clip_val);
  } else {
    clip_by_norm(gradients, total_norm(trained_->gradient_norms(2), 2), *options.gradient_clip_val);
  }
}

void Optimization::end_epoch() {
  if (const auto* plateau = std::get_if<PlateauSchedule>(&setup_.schedule)) {
    const std::optional<double> metric = context_.run.metric_of_all_ranks(plateau->monitor);
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

void Optimization::update_learning_rate() {
  if (held_) return;
  const TrainState& state = context_.state;
  if (std::holds_alternative<PlateauSchedule>(setup_.schedule)) return set_lr_factor(plateau_.factor);
  const std::int64_t count = interval_ == Interval::step ? state.global_step : state.epoch;
  set_lr_factor(schedule_factor(setup_.schedule, count, total_counts_));
}

void Optimization::set_lr_factor(double factor) {
  lr_factor_ = factor;
  optimizer_->set_lr_factor(factor);
}

void Optimization::save(StateDict& state) const {
  state.make_section("optimizer").add(optimizer_->state());
  if (scaler_) {
    StateDict& scaler = state.make_section("grad_scaler");
    scaler.set("scale", scaler_->current_scale());
    scaler.set("growth_tracker", scaler_->growth_tracker());
  }
  StateDict& schedule = state.make_section("lr_schedule");
  schedule.set("factor", lr_factor_);
  schedule.set("held", held_);
  schedule.set("plateau_factor", plateau_.factor);
  schedule.set("plateau_best", plateau_.best);
  schedule.set("plateau_has_best", plateau_.has_best);
  schedule.set("plateau_bad_epochs", plateau_.bad_epochs);
}

void Optimization::load(const StateDict& state) {
  if (state.has_section("grad_scaler") != scaler_.has_value()) {
    throw StateError(std::string("the saved state ") + (scaler_ ? "lacks a loss scale" : "has a loss scale") +
                         ": it was saved by a training of another precision",
                     MessageCode::model_mismatch);
  }
  optimizer_->load(state.section("optimizer").pieces());
  if (scaler_) {
    const StateDict& scaler = state.section("grad_scaler");
    scaler_->restore(scaler.real("scale"), scaler.integer("growth_tracker"));
  }
  const StateDict& schedule = state.section("lr_schedule");
  plateau_ = {.factor = schedule.real("plateau_factor"),
              .best = schedule.real("plateau_best"),
              .has_best = schedule.boolean("plateau_has_best"),
              .bad_epochs = schedule.integer("plateau_bad_epochs")};
  held_ = schedule.boolean("held");
  set_lr_factor(schedule.real("factor"));
}

}  // namespace cxtrain
