#include "cxtrain/trainer/optimization.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/clip.h"
#include "cxtrain/optim/parameter_groups.h"
#include "cxtrain/trainer/gradient_norms.h"

namespace cxtrain {
namespace {

/// Over what the strategy gives the optimizer, in groups of the model's parameters.
std::unique_ptr<Optimizer> make_optimizer_for(const Run::Parts& parts, OptimizerSetup setup) {
  const std::vector<NamedTensor> parameters = parts.strategy.optimizer_parameters();
  setup.groups = translate_groups(std::move(setup.groups), parts.module.all_parameters(), parameters);
  return make_optimizer(setup, parameters, parts.strategy.optimizer_shards());
}

}  // namespace

Optimization::Optimization(Run& run, const OptimizerSetup& setup, const FitLimits& limits,
                           bool scale_gradients)
    : run_(run),
      setup_(setup),
      log_every_(limits.log_every),
      total_counts_(setup.interval == Interval::step ? limits.total_steps()
                                                     : std::max<std::int64_t>(limits.max_epochs, 0)),
      optimizer_(make_optimizer_for(run.parts, setup)) {
  if (scale_gradients) scaler_.emplace(run.parts.device);
  if (optimizer_->needs_closure() && (limits.accumulate > 1 || scale_gradients)) {
    throw ConfigError("optimizer",
                      "an optimizer that evaluates the loss itself works with neither "
                      "accumulate_grad_batches nor 16-mixed",
                      "use precision 32-true or bf16-mixed and no accumulation");
  }
  run_.loop.learning_rates = [this] { return optimizer_->learning_rates(); };
  update_learning_rate();
}

bool Optimization::step(Contribution contribution, const std::function<at::Tensor()>& recompute) {
  Strategy& strategy = run_.parts.strategy;
  strategy.synchronize_gradients();
  if (!leave_out_ranks_that_skipped(contribution)) return false;
  if (scaler_) scaler_->unscale(strategy.gradients());
  log_gradient_norms();
  run_.call(hooks::on_before_optimizer_step);
  clip();

  Optimizer::StepInputs inputs;
  if (scaler_) inputs.found_inf = &scaler_->found_inf();
  if (optimizer_->needs_closure()) {
    inputs.closure = [&] {
      at::Tensor loss = recompute();
      strategy.synchronize_gradients();
      return loss;
    };
  }
  optimizer_->step(inputs);
  if (scaler_) scaler_->update();
  strategy.after_optimizer_step();
  ++run_.state.global_step;
  if (setup_.interval == Interval::step) update_learning_rate();
  return true;
}

/// They have added zeros to the averages over all ranks. False where no rank has a loss.
bool Optimization::leave_out_ranks_that_skipped(Contribution contribution) {
  World& world = run_.parts.world;
  if (world.size() == 1) return contribution == Contribution::loss;
  double counts[] = {contribution == Contribution::loss ? 1.0 : 0.0,
                     contribution == Contribution::skipped ? 1.0 : 0.0};
  world.sum(counts);
  const auto [with_loss, skipped] = counts;
  if (with_loss == 0) return false;
  if (skipped == 0) return true;
  const at::NoGradGuard no_grad;
  const std::span<const at::Tensor> gradients = run_.parts.strategy.gradients();
  at::_foreach_mul_(at::TensorList(gradients.data(), gradients.size()),
                    world.size() / (world.size() - skipped));
  return true;
}

void Optimization::log_gradient_norms() {
  const double order = run_.parts.options.trainer.track_grad_norm;
  if (order < 0 || log_every_ <= 0 || (run_.state.global_step + 1) % log_every_ != 0) return;
  for (const auto& [name, norm] : gradient_norms(run_.parts.strategy.optimizer_parameters(), order)) {
    run_.log(name, norm);
  }
}

void Optimization::clip() {
  const TrainerOptions& options = run_.parts.options.trainer;
  if (!options.gradient_clip_val || *options.gradient_clip_val <= 0) return;
  Strategy& strategy = run_.parts.strategy;
  const std::span<const at::Tensor> gradients = strategy.gradients();
  const at::TensorList list(gradients.data(), gradients.size());
  if (options.gradient_clip_algorithm == "value") {
    clip_by_value(list, *options.gradient_clip_val);
  } else {
    clip_by_norm(list, strategy.gradient_norm(), *options.gradient_clip_val);
  }
}

void Optimization::end_epoch() {
  if (const auto* plateau = std::get_if<PlateauSchedule>(&setup_.schedule)) {
    const std::optional<double> metric = run_.metric_of_all_ranks(plateau->monitor);
    if (!metric) {
      throw TrainingError("the plateau schedule monitors `" + plateau->monitor +
                          "`, but nothing of this name was logged by the end of the epoch");
    }
    run_.state.plateau.observe(*plateau, *metric);
  } else if (setup_.interval == Interval::step) {
    return;
  }
  update_learning_rate();
}

void Optimization::update_learning_rate() {
  if (held_) return;
  const TrainState& state = run_.state;
  if (std::holds_alternative<PlateauSchedule>(setup_.schedule))
    return optimizer_->set_lr_factor(state.plateau.factor);
  const std::int64_t count = setup_.interval == Interval::step ? state.global_step : state.epoch;
  optimizer_->set_lr_factor(schedule_factor(setup_.schedule, count, total_counts_));
}

}  // namespace cxtrain
