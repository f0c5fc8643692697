#pragma once

#include <memory>
#include <optional>

#include "cxtrain/optim/optimizer.h"
#include "cxtrain/optim/schedule.h"
#include "cxtrain/precision/grad_scaler.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/skipped_steps.h"
#include "cxtrain/trainer/step_vote.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// The module's optimizer and schedule, with what the options change, and with another learning rate where
/// one was found. Throws ConfigError.
OptimizerSetup optimizer_setup(Module& module, const Options& options, std::optional<double> lr = {});

/// What follows a complete backward: gradients synchronised, unscaled and clipped, the optimizer stepped, the
/// loss scale and the learning rate moved on. Nothing here waits for the device.
class Optimization final : public Stateful, public OptimizerView {
 public:
  /// `trained`: what the strategy has prepared for the setup's optimizer. Talks to no other rank. Throws
  /// ConfigError.
  Optimization(TrainContext& context, const OptimizerSetup& setup, std::unique_ptr<TrainedParameters> trained,
               const FitLimits& limits, bool scale_gradients);
  ~Optimization() override { context_.progress.optimizer = nullptr; }
  Optimization(const Optimization&) = delete;
  Optimization& operator=(const Optimization&) = delete;

  /// Makes one optimizer step and counts it. `own`, `of_all_ranks`: the contributions to the step. The
  /// gradients are averages over the ranks that did not skip the step. If no rank has a loss, nothing is
  /// updated or counted, and every rank returns false. `recompute` runs forward and backward again, for
  /// optimizers that need a closure. Throws an AgreedError that names a gradient if too many steps in a row
  /// were skipped (`max_skipped_steps`). Collective.
  bool step(Contribution own, Contribution of_all_ranks, const std::function<at::Tensor()>& recompute);
  /// At the end of an epoch, after its validation.
  void end_epoch();

  std::vector<LearningRate> learning_rates() const override;
  /// The learning rate stays what it is, whatever the schedule says.
  void hold_learning_rate() { held_ = true; }

  // What the optimizer, the loss scale and the schedule remember; the parameters are the model's.
  std::string state_key() const override { return "optimization"; }
  void save(StateDict& state) const override;
  void load(const StateDict& state) override;

  TrainedParameters& trained() { return *trained_; }
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }

 private:
  void leave_out_ranks_that_skipped(Contribution own);
  void end_for_overflow();
  void log_gradient_norms();
  void clip();
  void update_learning_rate();
  void set_lr_factor(double factor);

  TrainContext& context_;
  OptimizerSetup setup_;
  Interval interval_;
  std::int64_t log_every_;
  PlateauState plateau_;
  double lr_factor_ = 1;
  bool held_ = false;  ///< the factor
  std::int64_t total_counts_;
  std::unique_ptr<TrainedParameters> trained_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<GradScaler> scaler_;
  SkippedSteps skipped_steps_;
};

}  // namespace cxtrain
