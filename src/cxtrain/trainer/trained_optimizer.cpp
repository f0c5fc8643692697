#include "cxtrain/trainer/trained_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/values.h"
#include "cxtrain/metrics/async_scalars.h"
#include "cxtrain/optim/clip.h"
#include "cxtrain/optim/setup_arguments.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/tensor/norms.h"
#include "cxtrain/trainer/model_checks.h"

namespace cxtrain {
namespace {

/// Returns this rank's loss; undefined: the rank has no sample.
at::Tensor loss_once_more(Strategy& strategy, const MicroStep& micro) {
  OneMicroStep plan(micro);
  strategy.step(plan);
  return plan.loss.defined() ? plan.loss.mul(micro.loss_weight) : plan.loss;
}

/// Ranks whose optimizers compare losses have to compare the same losses. `own`: this rank's, times its
/// weight, or undefined. Collective.
at::Tensor mean_over_ranks(const at::Tensor& own, World& world) {
  if (world.size() == 1) return own;
  double loss[] = {own.defined() ? own.item<double>() : 0};
  world.sum(loss);
  return at::scalar_tensor(loss[0] / world.size(), at::kDouble);
}

}  // namespace

TrainedOptimizer::TrainedOptimizer(std::size_t index, SharedStep& shared, TrainContext& context,
                                   const NamedOptimizer& entry, std::vector<NamedTensor> parameters,
                                   std::unique_ptr<TrainedParameters> trained, const FitLimits& limits)
    : index_(index),
      shared_(shared),
      context_(context),
      name_(entry.name.empty() ? torch_name_of(entry.setup.optimizer) : entry.name),
      frequency_(entry.frequency),
      log_every_(limits.log_every),
      parameters_(std::move(parameters)),
      trained_(std::move(trained)),
      optimizer_(make_optimizer(entry.setup, parameters_, trained_->pieces())),
      rate_(entry.setup, name_, *optimizer_, context, limits, frequency_),
      skipped_steps_(context.parts.options.trainer.max_skipped_steps, context.parts.device) {
  if (shared.scaler() != nullptr) found_inf_ = shared.scaler()->none_found();
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
  shared_.begin_manual(*this, ManualOperation::minimize);
  if (std::exchange(minimized_, true) && shared_.accumulates()) {
    throw TrainingError("minimize() of optimizer " + name_ +
                        " was called twice in a batch, and accumulate_grad_batches adds up one loss of each "
                        "batch; leave the option out, or accumulate in training_step");
  }
  const Toggle only_these = toggle();
  const at::Tensor value = loss();
  require_trainable_loss(value);
  if (optimizer_->needs_closure()) {
    recompute_ = [&] {
      const AutocastGuard autocast(context_.parts.device.type(), shared_.precision().autocast_dtype);
      const at::Tensor again = loss();
      backward(again);
      return again.detach().mul(shared_.micro().loss_weight);
    };
  }
  const AutocastPause pause(context_.parts.device.type());
  backward(value);
  if (shared_.micro().last) {
    shared_.announce(index_, ManualOperation::step);
    update();
  }
  recompute_ = nullptr;
}

void TrainedOptimizer::zero_grad() {
  shared_.begin_manual(*this, ManualOperation::zero_grad);
  zero_gradients();
}

void TrainedOptimizer::step() {
  if (!shared_.is_manual() && !shared_.in_training_step()) {
    if (!std::exchange(may_step_, false)) {
      throw TrainingError(
          "step() of optimizer " + name_ +
          ": in automatic optimization only optimizer_step may call it, once; set "
          "automatic_optimization to false in the constructor of the model to step elsewhere");
    }
    return update();
  }
  const bool several = context_.parts.world.size() > 1;
  if (several && shared_.is_manual() && shared_.in_training_step() && !has_gradients_) {
    throw TrainingError("step() of optimizer " + name_ +
                        ": there was no manual_backward() since its last step; call manual_backward(loss) in "
                        "place of loss.backward(), which leaves each rank its own gradients");
  }
  shared_.begin_manual(*this, ManualOperation::step);
  const AutocastPause pause(context_.parts.device.type());
  update();
}

void TrainedOptimizer::follow(ManualOperation operation, double limit) {
  if (operation == ManualOperation::minimize) return backward({});
  if (operation == ManualOperation::backward) return begin_backward();
  if (operation == ManualOperation::zero_grad) return zero_gradients();
  if (operation == ManualOperation::gradients) return complete();
  if (operation == ManualOperation::clip_by_norm) return clip_gradients(limit, GradientClipAlgorithm::norm);
  if (operation == ManualOperation::clip_by_value) return clip_gradients(limit, GradientClipAlgorithm::value);
  if (optimizer_->needs_closure()) {
    recompute_ = [&] {
      backward({});
      return at::Tensor();
    };
  }
  update();
  recompute_ = nullptr;
}

void TrainedOptimizer::zero_gradients() {
  const SharedStep::OnAllRanks together(shared_);
  shared_.micro().observer.before_zero_grad();
  trained_->exchange().zero_gradients();
  complete_ = has_gradients_ = false;
}

void TrainedOptimizer::backward(const at::Tensor& loss) {
  const PhaseScope phase(Phase::backward);
  complete_ = false;
  local_backward(loss, shared_.micro(), trained_->exchange());
}

// ------------------------------------------------------------------ a step

void TrainedOptimizer::complete() {
  if (std::exchange(complete_, true)) return;
  const PhaseScope phase(Phase::reduce);
  trained_->synchronize();
  if (shared_.scaler() == nullptr || !shared_.is_manual()) return;
  unscale();
  check_overflow();
}

void TrainedOptimizer::unscale() {
  const PhaseScope phase(Phase::optimizer);
  GradScaler& scaler = *shared_.scaler();
  found_inf_.zero_();
  scaler.unscale(trained_->held_gradients(), found_inf_);
  trained_->agree_on_overflow(found_inf_);
  scaler.note(found_inf_);
}

void TrainedOptimizer::begin_backward() {
  trained_->exchange().begin_backward(/*completes_step=*/false);
  trained_->exchange().end_backward();
  complete_ = false;
  has_gradients_ = true;
}

void TrainedOptimizer::step_by_module(const MicroStep& last) {
  Strategy& strategy = context_.parts.strategy;
  if (optimizer_->needs_closure()) recompute_ = [&] { return loss_once_more(strategy, last); };
  may_step_ = true;
  context_.parts.module.optimizer_step(*this);
  may_step_ = false;
  recompute_ = nullptr;
}

void TrainedOptimizer::update() {
  const PhaseScope phase(Phase::optimizer);
  const SharedStep::OnAllRanks together(shared_);
  complete();
  log_gradient_norms();
  context_.hooks.call(hooks::on_before_optimizer_step, *this);
  const TrainerOptions& options = context_.parts.options.trainer;
  context_.parts.module.configure_gradient_clipping(*this, options.gradient_clip_val,
                                                    options.gradient_clip_algorithm);
  Optimizer::StepInputs inputs{.gradients = trained_->gradients()};
  if (shared_.scaler() != nullptr) inputs.found_inf = &found_inf();
  if (optimizer_->needs_closure()) {
    if (!recompute_) {
      throw TrainingError("optimizer " + name_ +
                          " evaluates the loss itself: step() has no loss; call minimize()");
    }
    inputs.closure = [&] {
      const at::Tensor own = recompute_();
      trained_->synchronize();
      return mean_over_ranks(own, context_.parts.world);
    };
  }
  trained_->begin_update();
  optimizer_->step(inputs);
  PhaseClock::enter(Phase::publish);
  trained_->publish_step();
  shared_.note_update();
  has_gradients_ = false;
  end_step();
  rate_.count_step();
}

/// If a gradient of this step is not finite: throws, on all ranks alike.
void TrainedOptimizer::end_for_overflow() {
  const std::vector<double> largest =
      AsyncScalars(trained_->gradient_norms(std::numeric_limits<double>::infinity())).wait();
  const auto overflow = std::ranges::find_if(largest, [](double norm) { return !std::isfinite(norm); });
  // Nodes that train apart have gradients of their own.
  const std::int64_t place =
      context_.parts.world.max(overflow == largest.end() ? -1 : overflow - largest.begin());
  if (place < 0) return;
  const TrainerOptions& options = context_.parts.options.trainer;
  throw AgreedError(
      ExitCode::failure, MessageCode::not_finite,
      context_.where() + ": the gradient of " + parameters_.at(static_cast<std::size_t>(place)).name +
          " is not finite, and so were gradients of " + std::to_string(options.max_skipped_steps) +
          " steps in a row, which were skipped while the loss scale went down to " +
          format_real(shared_.scaler()->current_scale()) +
          " (trainer.max_skipped_steps): the loss or the model's values overflow by themselves. A smaller "
          "learning rate or precision bf16-mixed may help; --detect_anomaly true finds the operation");
}

void TrainedOptimizer::log_gradient_norms() {
  const double order = context_.parts.options.trainer.track_grad_norm;
  if (order < 0 || log_every_ <= 0 || (context_.state.global_step + 1) % log_every_ != 0) return;
  const std::vector<at::Tensor> norms = trained_->gradient_norms(order);
  for (const auto& [name, norm] : named_norms(parameters_, norms, order)) {
    context_.metrics.log(context_.progress.optimizers->all().size() > 1 && name.ends_with("_total")
                             ? name + "_" + name_
                             : name,
                         norm, {});
  }
}

std::span<const at::Tensor> TrainedOptimizer::gradients() {
  if (!complete_) {
    require_whole_step();
    shared_.announce(index_, ManualOperation::gradients);
  }
  complete();
  return trained_->held_gradients();
}

/// Ranks average the gradients of all micro-batches at once.
void TrainedOptimizer::require_whole_step() const {
  if (shared_.is_manual() || !shared_.in_training_step() || shared_.micro().last) return;
  if (context_.parts.world.size() == 1) return;
  throw TrainingError(
      "gradients() of optimizer " + name_ +
      ": with accumulate_grad_batches the gradients are averaged after the last batch of a step; "
      "ask for them in on_before_optimizer_step");
}

void TrainedOptimizer::clip(double limit, GradientClipAlgorithm algorithm) {
  const bool by_value = algorithm == GradientClipAlgorithm::value;
  if (!complete_) require_whole_step();
  shared_.announce(index_, by_value ? ManualOperation::clip_by_value : ManualOperation::clip_by_norm, limit);
  clip_gradients(limit, algorithm);
}

void TrainedOptimizer::clip_gradients(double limit, GradientClipAlgorithm algorithm) {
  complete();
  const std::span<const at::Tensor> held = trained_->held_gradients();
  const at::TensorList list{held.data(), held.size()};
  if (algorithm == GradientClipAlgorithm::value) {
    clip_by_value(list, limit);
  } else {
    clip_by_norm(list, total_norm(trained_->gradient_norms(2), 2), limit);
  }
}

// ------------------------------------------------------------------ the state

void TrainedOptimizer::save(StateDict& state, const std::string& suffix) const {
  StateDict& section = state.make_section("optimizer" + suffix);
  section.add(optimizer_->state());
  section.add(trained_->state());
  rate_.save(state.make_section("lr_schedule" + suffix));
}

void TrainedOptimizer::average_state() {
  std::vector<at::Tensor> tensors;
  for (const Piece& piece : optimizer_->state()) {
    if (!piece.name.starts_with("step.")) tensors.push_back(piece.values);  // counts are equal
  }
  trained_->average(tensors);
}

void TrainedOptimizer::load(const StateDict& state, const std::string& suffix) {
  const std::span<const Piece> saved = state.section("optimizer" + suffix).pieces();
  optimizer_->load(saved);
  trained_->load(saved);
  rate_.load(state.section("lr_schedule" + suffix));
}

}  // namespace cxtrain
