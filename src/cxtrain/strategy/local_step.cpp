#include "cxtrain/strategy/local_step.h"

#include <c10/util/ScopeExit.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/strategy/parameter_store.h"
#include "cxtrain/tensor/hollow.h"

namespace cxtrain {

void require_trainable_loss(const at::Tensor& loss) {
  if (!loss.defined() || loss.numel() != 1) {
    const std::string found = loss.defined() ? c10::str("a tensor of shape ", loss.sizes()) : "no tensor";
    throw TrainingError(
        "training_step must return the loss as one number, got " + found + "; reduce it with .mean()",
        MessageCode::bad_loss);
  }
  if (!loss.requires_grad()) {
    throw TrainingError(
        "the loss of training_step has no gradient: it was computed without any trained parameter, "
        "detached, or under a NoGradGuard",
        MessageCode::bad_loss);
  }
}

StepOutput forward_step(Trainable& module, const Batch& batch, std::int64_t batch_idx,
                        const StrategyContext& context) {
  const AutocastGuard autocast(context.device.type(), context.precision.autocast_dtype);
  StepOutput output = module.training_step(batch, batch_idx);
  if (output.loss.defined()) require_trainable_loss(output.loss);
  return output;
}

StepOutput detached(StepOutput output) {
  // `tensor_data` returns what `detach` returns, and does not call the dispatcher.
  if (output.loss.defined()) output.loss = output.loss.tensor_data();
  for (auto& [name, tensor] : output.extras) {
    if (tensor.defined()) tensor = tensor.tensor_data();
  }
  return output;
}

at::Tensor scaled_loss(const at::Tensor& loss, double weight, const GradScaler* scaler) {
  const at::Tensor weighted = weight == 1 ? loss : loss.mul(weight);
  return scaler == nullptr ? weighted : scaler->scale(weighted);
}

void observed_backward(const at::Tensor& loss, const MicroStep& step) {
  step.observer.before_backward(loss);
  scaled_loss(loss, step.loss_weight, step.scaler).backward();
  step.observer.after_backward();
}

void local_backward(const at::Tensor& loss, const MicroStep& step, GradientExchange& gradients) {
  if (step.first) {
    step.observer.before_zero_grad();
    gradients.zero_gradients();
  }
  gradients.begin_backward(step.last);
  if (loss.defined()) observed_backward(loss, step);
  gradients.end_backward();
}

void local_forward(Trainable& module, const Batch& batch, std::int64_t batch_idx,
                   const StrategyContext& context) {
  if (batch.size == 0) return;
  const at::NoGradGuard no_grad;
  const AutocastGuard autocast(context.device.type(), context.precision.autocast_dtype);
  const FreshStates unseen(module.all_metrics());
  MetricSink* const sink = module.redirect_log(nullptr);
  const auto back = c10::make_scope_exit([&] { module.redirect_log(sink); });
  module.training_step(batch, batch_idx);
}

void local_evaluation_step(Trainable& module, EvaluationStage stage, const Batch& batch,
                           std::int64_t batch_idx, const StrategyContext& context) {
  if (batch.size == 0) return;
  const EvaluationGuard guard(context.options.trainer.inference_mode);
  const AutocastGuard autocast(context.device.type(), context.precision.autocast_dtype);
  if (stage == EvaluationStage::validate) {
    module.validation_step(batch, batch_idx);
  } else {
    module.test_step(batch, batch_idx);
  }
}

at::Tensor local_predict_step(Trainable& module, const Batch& batch, std::int64_t batch_idx,
                              const StrategyContext& context) {
  if (batch.size == 0) return {};
  const EvaluationGuard guard(context.options.trainer.inference_mode);
  const AutocastGuard autocast(context.device.type(), context.precision.autocast_dtype);
  return module.predict_step(batch, batch_idx);
}

bool broadcast_whole(const std::vector<NamedTensor>& parameters, Communicator& communicator, World& world) {
  const bool hollow = std::ranges::any_of(
      parameters, [](const NamedTensor& parameter) { return is_hollow(parameter.tensor); });
  if (world.any_rank(hollow)) return false;
  TensorSync::broadcast_once(parameters, communicator);
  return true;
}

std::vector<NamedTensor> parameters_of(std::span<const OptimizerTarget> targets) {
  std::vector<NamedTensor> all;
  for (const OptimizerTarget& target : targets)
    all.insert(all.end(), target.parameters.begin(), target.parameters.end());
  return all;
}

std::set<std::string> untrained_parameters(const Trainable& module,
                                           std::span<const OptimizerTarget> targets) {
  std::set<std::string> names;
  for (const NamedTensor& parameter : module.all_parameters()) names.insert(parameter.name);
  for (const NamedTensor& parameter : parameters_of(targets)) names.erase(parameter.name);
  return names;
}

std::vector<Piece> pieces_in_model(std::vector<Piece> pieces, const Trainable& module,
                                   const Strategy& strategy) {
  std::unordered_map<std::string, at::Tensor> parameters;
  for (NamedTensor& named : module.all_parameters())
    parameters.emplace(std::move(named.name), std::move(named.tensor));
  for (Piece& piece : pieces) {
    const at::Tensor& parameter = parameters.at(piece.name);
    if (parameter.scalar_type() != piece.values.scalar_type()) continue;
    if (strategy.ranks_keep_whole_models()) piece = part_of(piece.name, parameter, piece.range);
    piece.of_model = true;
  }
  return pieces;
}

std::vector<NamedTensor> all_tensors(const Trainable& module) {
  std::vector<NamedTensor> all = module.all_parameters();
  for (NamedTensor& buffer : module.all_buffers()) all.push_back(std::move(buffer));
  return all;
}

void visit_all(const Trainable& module, const std::function<void(const NamedTensor&)>& visit) {
  std::vector<NamedTensor> all = all_tensors(module);
  std::ranges::sort(all, {}, &NamedTensor::name);
  for (const NamedTensor& named : all) visit(named);
}

std::vector<NamedTensor> trainable_parameters(const Trainable& module) {
  std::vector<NamedTensor> trainable;
  for (NamedTensor& parameter : module.all_parameters()) {
    const at::ScalarType dtype = parameter.tensor.scalar_type();
    if (at::isFloatingType(dtype) || at::isComplexType(dtype)) trainable.push_back(std::move(parameter));
  }
  return trainable;
}

void LocalStrategy::place(Trainable& module, const StrategyContext& context) {
  module_ = &module;
  context_ = &context;
  module.place(context.devices, context.precision);
}

std::vector<std::unique_ptr<TrainedParameters>> LocalStrategy::prepare(
    const std::vector<OptimizerTarget>& targets, Backward backward) {
  exchanges_.clear();
  backward_ = backward;
  if (backward == Backward::together) exchanges_.push_back(make_exchange(targets));
  std::vector<std::unique_ptr<TrainedParameters>> trained;
  for (const OptimizerTarget& target : targets) {
    if (backward == Backward::apart) exchanges_.push_back(make_exchange({&target, 1}));
    trained.push_back(make_trained(target, *exchanges_.back()));
  }
  return trained;
}

std::unique_ptr<GradientExchange> LocalStrategy::make_exchange(std::span<const OptimizerTarget> targets) {
  return std::make_unique<LocalGradients>(parameters_of(targets));
}

std::unique_ptr<TrainedParameters> LocalStrategy::make_trained(const OptimizerTarget& target,
                                                               GradientExchange& exchange) {
  return std::make_unique<ParameterStore>(target.parameters, context_->precision, exchange);
}

StepResult LocalStrategy::step(StepPlan& plan) {
  StepResult result;
  while (const MicroStep* const micro = plan.next()) {
    StepOutput output = training_step(*micro);
    if (backward_ == Backward::together) result.add(*micro, output.loss);
    plan.end(std::move(output));
  }
  return result;
}

StepOutput LocalStrategy::training_step(const MicroStep& step) {
  if (backward_ == Backward::apart && step.batch.size == 0) return {};
  const PhaseScope phase(Phase::forward);
  StepOutput output;
  if (backward_ == Backward::apart) {
    const AutocastGuard autocast(context_->device.type(), context_->precision.autocast_dtype);
    output = module_->training_step(step.batch, step.batch_idx);
  } else {
    if (step.batch.size > 0) output = forward_step(*module_, step.batch, step.batch_idx, *context_);
    PhaseClock::enter(Phase::backward);
    // No loss: the model skips the batch, or an uneven last step leaves no sample to this rank.
    local_backward(output.loss, step, *exchanges_.front());
  }
  return detached(std::move(output));
}

}  // namespace cxtrain
