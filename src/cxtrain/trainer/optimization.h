#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cxtrain/optim/optimizer_ref.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/shared_step.h"
#include "cxtrain/trainer/train_context.h"
#include "cxtrain/trainer/trained_optimizer.h"

namespace cxtrain {

/// The module's optimizers and schedules, with the options' changes, and with another learning rate if one
/// was found; at least one. Throws ConfigError if they contradict each other or the options.
std::vector<NamedOptimizer> optimizer_setups(Module& module, const Options& options,
                                             std::optional<double> lr = {});

/// The parameters of the module that each of the optimizers trains. The setups outlive the result.
std::vector<OptimizerTarget> optimizer_targets(const Module& module,
                                               const std::vector<NamedOptimizer>& setups);

/// Who runs the backward passes of the module's training (`Module::automatic_optimization`).
Backward backward_of(const Module& module);

/// The optimizers of a fit with one loss scale for all. Nothing here waits for the device.
///
/// For each micro-batch: `begin`, the module's step, `end`; after the last of them `step`. In manual
/// optimization the module steps the optimizers within its step.
class Optimization final : public Stateful, public OptimizerList {
 public:
  /// `targets`: of `optimizer_targets`, and what the strategy has prepared for each (`trained`). Talks to no
  /// other rank. Throws ConfigError.
  Optimization(TrainContext& context, const std::vector<NamedOptimizer>& setups,
               const std::vector<OptimizerTarget>& targets,
               std::vector<std::unique_ptr<TrainedParameters>> trained, const FitLimits& limits,
               const PrecisionPolicy& precision);
  ~Optimization() override { context_.progress.optimizers = nullptr; }
  Optimization(const Optimization&) = delete;
  Optimization& operator=(const Optimization&) = delete;

  /// Begins a micro-batch, which outlives `end` (`SharedStep`).
  void begin(const MicroStep& micro, bool uneven);
  void end() { shared_.end(); }
  bool is_manual() const { return shared_.is_manual(); }
  /// The loss scale; null without one.
  GradScaler* scaler() { return shared_.scaler(); }

  /// Marks the gradients as not complete, in automatic optimization. A hook may have completed the gradients
  /// of the step before.
  void expect_gradients() {
    if (shared_.is_manual()) return;
    for (const auto& optimizer : optimizers_) optimizer->end_step();
  }
  /// Completes the gradients of a step, in automatic optimization; without effect on complete ones.
  /// Collective.
  void complete() {
    if (shared_.is_manual()) return;
    for (const auto& optimizer : optimizers_) optimizer->complete();
  }
  /// The exchange of the step's gradients, of all optimizers. Null in manual optimization, whose gradients
  /// travel within the module's step.
  GradientExchange* exchange() {
    return shared_.is_manual() ? nullptr : &optimizers_.front()->trained().exchange();
  }
  /// Completes an optimizer step, and counts it. `own`, `of_all_ranks`: what was put into the step. In
  /// automatic optimization the gradients are averages over the ranks that did not skip the step. If no rank
  /// has a loss, or, in manual optimization, no optimizer has stepped, nothing is counted, and every rank
  /// returns false. Throws an AgreedError that names a gradient if too many steps in a row were skipped
  /// (`max_skipped_steps`). Collective.
  bool step(const StepResult& own, const StepResult& of_all_ranks, const MicroStep& last);
  /// At the end of an epoch, after its validation.
  void end_epoch() {
    for (const auto& optimizer : optimizers_) optimizer->rate().end_epoch();
  }

  void hold_learning_rate() {
    for (const auto& optimizer : optimizers_) optimizer->rate().hold();
  }

  const std::vector<Piece>& pieces() const override { return pieces_; }
  std::vector<Piece> pieces_in_model() const override;
  /// The parameters of all optimizers.
  std::vector<NamedTensor> parameters() const;
  std::vector<TrainedParameters*> trained();
  void begin_update() override {
    for (const auto& optimizer : optimizers_) optimizer->trained().begin_update();
  }
  void publish() override {
    for (const auto& optimizer : optimizers_) optimizer->trained().publish();
  }
  /// Makes the model equal on all ranks, if they update it apart. Between two steps. Collective.
  void unite() {
    for (const auto& optimizer : optimizers_) optimizer->trained().unite();
  }
  /// The same for the model and the state of the optimizers. Collective.
  void unite_state();

 private:
  std::span<OptimizerRef* const> all() const override { return refs_; }
  void backward(const at::Tensor& loss) override;

  // The state of the optimizers, the loss scale and the schedules. The state of the model has the parameters.
  std::string state_key() const override { return "optimization"; }
  void save(StateDict& state) const override;
  void load(const StateDict& state) override;

  bool step_automatically(const StepResult& own, const StepResult& of_all_ranks, const MicroStep& last);
  void update_due(const MicroStep& last);
  void leave_out_ranks_that_skipped(const StepResult& own);

  TrainContext& context_;
  std::vector<std::unique_ptr<TrainedOptimizer>> optimizers_;
  SharedStep shared_;
  std::vector<OptimizerRef*> refs_;  ///< to `optimizers_`
  std::vector<Piece> pieces_;
};

}  // namespace cxtrain
