#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/optim/optimizer.h"
#include "cxtrain/optim/optimizer_ref.h"
#include "cxtrain/optim/schedule.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/skipped_steps.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

class Optimization;

/// One optimizer of a fit with its parameters and its schedule. Nothing here waits for the device.
class TrainedOptimizer final : public OptimizerRef {
 public:
  /// `all`: the optimizers of the fit. `parameters`: what the optimizer trains. `trained`: what the strategy
  /// has prepared for them. Talks to no other rank. Throws ConfigError.
  TrainedOptimizer(Optimization& all, TrainContext& context, const NamedOptimizer& entry,
                   std::vector<NamedTensor> parameters, std::unique_ptr<TrainedParameters> trained,
                   const FitLimits& limits);

  const std::string& name() const override { return name_; }
  void minimize(const std::function<at::Tensor()>& loss) override;
  void zero_grad() override;
  void step() override;
  Toggle toggle() override;
  double lr() const override { return optimizer_->learning_rates().front(); }
  std::vector<LearningRate> learning_rates() const override;
  void set_lr(double lr) override;
  std::span<const at::Tensor> gradients() override;
  void clip(double limit, GradientClipAlgorithm algorithm) override;

  /// Averages the gradients over the ranks; in manual optimization, removes the loss scale, too. Has no
  /// effect on complete gradients. Collective.
  void complete();
  /// Throws an AgreedError if too many steps in a row were skipped. Called once a step, after `unscale`.
  void check_overflow();
  /// The next step has gradients of its own.
  void end_step() { complete_ = false; }
  /// Whether the optimizer updates its parameters in automatic optimization's step number `step`, from 0 on.
  bool is_due(std::int64_t step) const { return (step + 1) % frequency_ == 0; }
  /// For an optimizer that evaluates the loss itself (`needs_closure`): forward and backward once more.
  void set_recompute(std::function<at::Tensor()> recompute) { recompute_ = std::move(recompute); }
  bool needs_closure() const { return optimizer_->needs_closure(); }
  /// Takes part in `minimize`, `zero_grad` or `step` of the other ranks, on a rank without a sample.
  void follow(char operation);

  /// At the end of an epoch, after its validation.
  void end_epoch();
  /// The learning rate stays as it is, whatever the schedule says.
  void hold_learning_rate() { held_ = true; }

  /// What the optimizer and its schedule remember; `suffix`: of the names of the sections.
  void save(StateDict& state, const std::string& suffix) const;
  void load(const StateDict& state, const std::string& suffix);

  TrainedParameters& trained() { return *trained_; }
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 private:
  void zero_gradients();
  void backward(const at::Tensor& loss);
  void update();
  void end_for_overflow();
  void log_gradient_norms();
  void update_learning_rate();
  void set_lr_factor(double factor);

  Optimization& all_;
  TrainContext& context_;
  std::string name_;
  OptimizerSetup setup_;
  Interval interval_;
  std::int64_t frequency_, log_every_;
  PlateauState plateau_;
  double lr_factor_ = 1;
  bool held_ = false;       ///< the factor
  bool complete_ = false;   ///< the gradients of this step
  std::int64_t steps_ = 0;  ///< of this optimizer
  std::int64_t total_counts_;
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<TrainedParameters> trained_;
  std::unique_ptr<Optimizer> optimizer_;
  std::function<at::Tensor()> recompute_;
  SkippedSteps skipped_steps_;
};

}  // namespace cxtrain
