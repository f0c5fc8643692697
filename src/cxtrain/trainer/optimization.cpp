#include "cxtrain/trainer/optimization.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>

#include <map>
#include <set>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/optim/overrides.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {
namespace {

ConfigError bad_optimizers(const std::string& what, const std::string& hint = "") {
  return {"model", "configure_optimizers: " + what, hint, MessageCode::bad_model};
}

std::string in_quotes(const std::string& name) { return "`" + name + "`"; }

void check_names(const std::vector<NamedOptimizer>& setups) {
  std::set<std::string> names;
  for (const NamedOptimizer& entry : setups) {
    if (entry.frequency < 1)
      throw bad_optimizers(
          "optimizer " + in_quotes(entry.name) + " has frequency " + std::to_string(entry.frequency),
          "use 1 or more");
    if (setups.size() == 1) continue;
    if (!is_one_line(entry.name))
      throw bad_optimizers("the name of one of several optimizers is not one line of text");
    if (!names.insert(entry.name).second)
      throw bad_optimizers("two optimizers are named " + in_quotes(entry.name));
  }
}

/// All tensors that the entry names.
std::vector<at::Tensor> named_parameters(const NamedOptimizer& entry) {
  if (!entry.parameters.empty()) return entry.parameters;
  std::vector<at::Tensor> parameters;
  for (const ParameterGroup& group : entry.setup.groups)
    parameters.insert(parameters.end(), group.parameters.begin(), group.parameters.end());
  return parameters;
}

void check_mode(const std::vector<NamedOptimizer>& setups, bool manual) {
  for (const NamedOptimizer& entry : setups) {
    if (manual && entry.frequency != 1) {
      throw bad_optimizers("optimizer " + in_quotes(entry.name) + " has a frequency in manual optimization",
                           "let training_step decide when the optimizer steps");
    }
    if (!manual && setups.size() > 1 && needs_closure(entry.setup.optimizer)) {
      throw bad_optimizers("optimizer " + in_quotes(entry.name) + " evaluates the loss itself, beside others",
                           "set automatic_optimization to false, and call minimize()");
    }
  }
}

}  // namespace

std::vector<NamedOptimizer> optimizer_setups(Module& module, const Options& options,
                                             std::optional<double> lr) {
  const Optimizers optimizers = module.configure_optimizers();
  std::vector<NamedOptimizer> setups = optimizers.entries();
  if (setups.empty()) throw bad_optimizers("no optimizer");
  check_names(setups);
  check_mode(setups, backward_of(module) == Backward::apart);
  std::vector<Problem> problems;
  if (setups.size() == 1) {
    setups[0].setup =
        apply_overrides(std::move(setups[0].setup), options.optimizer, options.lr_scheduler, problems);
    if (lr) setups[0].setup = with_learning_rate(std::move(setups[0].setup), *lr);
  } else if (const bool schedule = !options.lr_scheduler.name.empty() || !options.lr_scheduler.args.empty();
             schedule || !options.optimizer.name.empty() || !options.optimizer.args.empty()) {
    const std::string names = joined(setups, ", ", [](const NamedOptimizer& entry) { return entry.name; });
    problems.push_back({schedule ? "lr_scheduler" : "optimizer",
                        "changes the only optimizer of a model, and this model has several: " + names,
                        "give their arguments to the model", MessageCode::conflicting_options});
  }
  if (!problems.empty()) throw ConfigError(problems);
  return setups;
}

Backward backward_of(const Module& module) {
  return module.automatic_optimization ? Backward::together : Backward::apart;
}

std::vector<OptimizerTarget> optimizer_targets(const Module& module,
                                               const std::vector<NamedOptimizer>& setups) {
  const std::vector<NamedTensor> all_parameters = trainable_parameters(trainable(module));
  std::map<const at::TensorImpl*, std::string> owners;
  std::vector<OptimizerTarget> targets;
  for (const NamedOptimizer& entry : setups) {
    const bool all = setups.size() == 1 && entry.parameters.empty();
    std::set<const at::TensorImpl*> wanted;
    for (const at::Tensor& tensor : all ? std::vector<at::Tensor>{} : named_parameters(entry))
      wanted.insert(tensor.unsafeGetTensorImpl());
    OptimizerTarget target{entry.setup.optimizer, {}};
    for (const NamedTensor& parameter : all_parameters) {
      const at::TensorImpl* const tensor = parameter.tensor.unsafeGetTensorImpl();
      if (!all && wanted.erase(tensor) == 0) continue;
      target.parameters.push_back(parameter);
      if (const auto [owner, added] = owners.try_emplace(tensor, entry.name); !added) {
        throw bad_optimizers("optimizers " + in_quotes(owner->second) + " and " + in_quotes(entry.name) +
                             " both have the parameter " + parameter.name);
      }
    }
    if (!wanted.empty())
      throw bad_optimizers("optimizer " + in_quotes(entry.name) +
                           " has a tensor that is not a parameter of the model");
    if (setups.size() > 1 && target.parameters.empty())
      throw bad_optimizers(
          "optimizer " + in_quotes(entry.name) + " has no parameters",
          "several optimizers name their parameters: {\"" + entry.name + "\", Adam{}, net->parameters()}");
    targets.push_back(std::move(target));
  }
  return targets;
}

Optimization::Optimization(TrainContext& context, const std::vector<NamedOptimizer>& setups,
                           const std::vector<OptimizerTarget>& targets,
                           std::vector<std::unique_ptr<TrainedParameters>> trained, const FitLimits& limits,
                           const PrecisionPolicy& precision)
    : context_(context), shared_(context, optimizers_, limits.accumulate, precision) {
  const bool apart = context.parts.strategy.ranks_update_apart();
  for (std::size_t i = 0; i < setups.size(); ++i) {
    if (needs_closure(setups[i].setup.optimizer) &&
        (limits.accumulate > 1 || precision.scale_gradients || apart ||
         context.parts.options.trainer.gradient_clip_val.value_or(0) > 0)) {
      throw ConfigError("optimizer",
                        "an optimizer that evaluates the loss itself works with neither "
                        "accumulate_grad_batches nor gradient_clip_val nor 16-mixed nor "
                        "strategy.model_averaging_period",
                        "leave these out, or use another optimizer", MessageCode::conflicting_options);
    }
    optimizers_.push_back(std::make_unique<TrainedOptimizer>(
        i, shared_, context, setups[i], targets[i].parameters, std::move(trained[i]), limits));
    refs_.push_back(optimizers_.back().get());
    const std::span<const Piece> pieces = optimizers_.back()->trained().pieces();
    pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
  }
  context_.progress.optimizers = this;
}

void Optimization::begin(const MicroStep& micro, bool uneven) {
  expect_gradients();
  for (const auto& optimizer : optimizers_) optimizer->begin_batch();
  shared_.begin(micro, uneven);
}

bool Optimization::step(const StepResult& own, const StepResult& of_all_ranks, const MicroStep& last) {
  const bool stepped =
      shared_.is_manual() ? shared_.take_updated() : step_automatically(own, of_all_ranks, last);
  if (!stepped) return false;
  if (GradScaler* const scaler = shared_.scaler()) scaler->update();
  ++context_.state.global_step;
  for (const auto& optimizer : optimizers_) {
    TrainedParameters& trained = optimizer->trained();
    trained.exchange().end_step(context_.state.global_step);
    trained.end_step(context_.state.global_step);
  }
  return true;
}

void Optimization::unite_state() {
  if (!context_.parts.strategy.ranks_update_apart()) return;
  unite();
  for (const auto& optimizer : optimizers_) optimizer->average_state();
}

bool Optimization::step_automatically(const StepResult& own, const StepResult& of_all_ranks,
                                      const MicroStep& last) {
  complete();
  if (of_all_ranks.loss) {
    if (of_all_ranks.skipped) leave_out_ranks_that_skipped(own);
    update_due(last);
  }
  for (const auto& optimizer : optimizers_) optimizer->end_step();
  return of_all_ranks.loss;
}

void Optimization::update_due(const MicroStep& last) {
  const std::int64_t step = context_.state.global_step;
  if (shared_.scaler() != nullptr) {
    for (const auto& optimizer : optimizers_) {
      if (optimizer->is_due(step)) optimizer->unscale();
    }
    for (const auto& optimizer : optimizers_) {
      if (optimizer->is_due(step)) optimizer->check_overflow();
    }
  }
  for (const auto& optimizer : optimizers_) {
    if (optimizer->is_due(step)) optimizer->step_by_module(last);
  }
}

/// They have added zeros to the averages over all ranks.
void Optimization::leave_out_ranks_that_skipped(const StepResult& own) {
  const PhaseScope phase(Phase::agree);
  World& world = context_.parts.world;
  if (context_.parts.strategy.ranks_update_apart()) {
    throw AgreedError(ExitCode::failure, MessageCode::bad_loss,
                      context_.where() +
                          ": training_step of a rank returned no loss, and where nodes train apart "
                          "(strategy.model_averaging_period) no rank may leave a batch out");
  }
  double weights[] = {own.weight, own.skipped ? own.weight : 0.0};
  world.sum(weights);
  const at::NoGradGuard no_grad;
  const double trained = weights[0] - weights[1];
  const double factor = trained > 0 ? weights[0] / trained : 1;
  for (const auto& optimizer : optimizers_) {
    const std::span<const at::Tensor> held = optimizer->trained().held_gradients();
    for_each_dtype_and_device({held.data(), held.size()},
                              [&](at::TensorList kind) { at::_foreach_mul_(kind, factor); });
  }
}

void Optimization::backward(const at::Tensor& loss) {
  const MicroStep& micro = shared_.micro();
  if (!shared_.is_manual()) {
    throw TrainingError(
        "training_step calls manual_backward() in automatic optimization; set "
        "automatic_optimization to false in the constructor of the model");
  }
  require_trainable_loss(loss);
  for (const auto& optimizer : optimizers_) {
    shared_.announce(optimizer->index(), ManualOperation::backward);
    optimizer->begin_backward();
  }
  const PhaseScope phase(Phase::backward);
  const AutocastPause pause(context_.parts.device.type());
  observed_backward(loss, micro);
}

// ------------------------------------------------------------------ all optimizers

std::vector<NamedTensor> Optimization::parameters() const {
  std::vector<NamedTensor> all;
  for (const auto& optimizer : optimizers_)
    all.insert(all.end(), optimizer->parameters().begin(), optimizer->parameters().end());
  return all;
}

std::vector<TrainedParameters*> Optimization::trained() {
  return transformed(optimizers_, [](const auto& optimizer) { return &optimizer->trained(); });
}

std::vector<Piece> Optimization::pieces_in_model() const {
  return cxtrain::pieces_in_model(pieces_, trainable(context_.parts.module), context_.parts.strategy);
}

void Optimization::save(StateDict& state) const {
  const bool several = optimizers_.size() > 1;
  for (const auto& optimizer : optimizers_) optimizer->save(state, several ? "." + optimizer->name() : "");
  const GradScaler* const scaler = shared_.scaler();
  if (scaler == nullptr) return;
  StateDict& section = state.make_section("grad_scaler");
  section.set("scale", scaler->current_scale());
  section.set("growth_tracker", scaler->growth_tracker());
}

void Optimization::load(const StateDict& state) {
  GradScaler* const scaler = shared_.scaler();
  if (state.has_section("grad_scaler") != (scaler != nullptr)) {
    throw StateError(std::string("the saved state ") +
                         (scaler != nullptr ? "lacks a loss scale" : "has a loss scale") +
                         ": it was saved by a training of another precision",
                     MessageCode::model_mismatch);
  }
  const bool several = optimizers_.size() > 1;
  for (const auto& optimizer : optimizers_) optimizer->load(state, several ? "." + optimizer->name() : "");
  if (scaler == nullptr) return;
  const StateDict& section = state.section("grad_scaler");
  scaler->restore(section.real("scale"), section.integer("growth_tracker"));
}

}  // namespace cxtrain
