#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/optim/optimizer.h"
#include "cxtrain/optim/optimizer_ref.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/learning_rate_control.h"
#include "cxtrain/trainer/shared_step.h"
#include "cxtrain/trainer/skipped_steps.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// One optimizer of a fit with its parameters and its schedule. Nothing here waits for the device.
class TrainedOptimizer final : public OptimizerRef {
 public:
  /// `index`: among the optimizers of the fit. `shared`: what the optimizers of the fit share. `parameters`:
  /// what the optimizer trains. `trained`: what the strategy has prepared for them. Talks to no other rank.
  /// Throws ConfigError.
  TrainedOptimizer(std::size_t index, SharedStep& shared, TrainContext& context, const NamedOptimizer& entry,
                   std::vector<NamedTensor> parameters, std::unique_ptr<TrainedParameters> trained,
                   const FitLimits& limits);

  std::size_t index() const { return index_; }
  const std::string& name() const override { return name_; }
  /// Averages the gradients over the ranks; in manual optimization, removes the loss scale, too. Has no
  /// effect on complete gradients. Collective.
  void complete();
  /// Removes the loss scale from the gradients, and agrees with the other ranks on an overflow. Collective.
  void unscale();
  /// Throws an AgreedError if too many steps in a row were skipped. Called once a step, after `unscale`.
  void check_overflow() {
    if (skipped_steps_.too_many(found_inf())) end_for_overflow();
  }
  /// Begins a micro-batch.
  void begin_batch() { minimized_ = false; }
  /// The next step has gradients of its own.
  void end_step() { complete_ = false; }
  /// Whether the optimizer updates its parameters in automatic optimization's step number `step`, from 0 on.
  bool is_due(std::int64_t step) const { return (step + 1) % frequency_ == 0; }
  /// Manual optimization: a backward pass adds gradients, outside of `minimize`.
  void begin_backward();
  /// Automatic optimization's update: calls `Module::optimizer_step`. `last`: the last micro-batch, whose
  /// loss an optimizer that evaluates the loss itself computes again.
  void step_by_module(const MicroStep& last);
  /// Takes part in an operation of the other ranks, on a rank without a sample. `limit`: of a clip.
  void follow(ManualOperation operation, double limit);

  /// What the optimizer and its schedule remember; `suffix`: of the names of the sections.
  void save(StateDict& state, const std::string& suffix) const;
  void load(const StateDict& state, const std::string& suffix);

  /// Makes the optimizer's state the mean over the ranks that update the same pieces apart. Collective.
  void average_state();

  LearningRateControl& rate() { return rate_; }
  TrainedParameters& trained() { return *trained_; }
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 private:
  void minimize(const std::function<at::Tensor()>& loss) override;
  void zero_grad() override;
  void step() override;
  Toggle toggle() override { return Toggle(shared_.trained_by_others(*this)); }
  std::vector<LearningRate> learning_rates() const override;
  void set_lr(double lr) override { rate_.set(lr); }
  std::span<const at::Tensor> gradients() override;
  void clip(double limit, GradientClipAlgorithm algorithm) override;

  void zero_gradients();
  void clip_gradients(double limit, GradientClipAlgorithm algorithm);
  void backward(const at::Tensor& loss);
  void update();
  void end_for_overflow();
  /// In automatic optimization, whose optimizers have one loss, an overflow skips the steps of all.
  const at::Tensor& found_inf() { return shared_.is_manual() ? found_inf_ : shared_.scaler()->noted(); }
  void require_whole_step() const;
  void log_gradient_norms();

  const std::size_t index_;
  SharedStep& shared_;
  TrainContext& context_;
  std::string name_;
  std::int64_t frequency_, log_every_;
  bool complete_ = false;       ///< the gradients of this step
  bool has_gradients_ = false;  ///< of `manual_backward`, since the last step or `zero_grad`
  bool minimized_ = false;      ///< in this micro-batch
  bool may_step_ = false;  ///< in automatic optimization: `Module::optimizer_step` runs and has not stepped
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<TrainedParameters> trained_;
  std::unique_ptr<Optimizer> optimizer_;
  LearningRateControl rate_;
  at::Tensor found_inf_;  ///< of this step's gradients; undefined without a loss scale
  /// Runs both passes again; returns this rank's loss times its weight, undefined if the rank has no sample.
  std::function<at::Tensor()> recompute_;
  SkippedSteps skipped_steps_;
};

}  // namespace cxtrain
