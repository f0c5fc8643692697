#pragma once

#include "cxtrain/callbacks/callback.h"

namespace cxtrain {

/// Logs the learning rate as `lr-Adam`, or as `lr-Adam/pg1`, `lr-Adam/pg2` ... if the optimizer has several
/// parameter groups: Lightning's LearningRateMonitor, with Lightning's names, on logging steps.
class LearningRateMonitor final : public Callback {
 public:
  void on_train_batch_start(Run& run, const Batch&, std::int64_t) override {
    const std::int64_t every = run.progress().log_every_n_steps;
    if (every <= 0 || (run.global_step() + 1) % every != 0) return;
    for (const OptimizerRef* const optimizer : run.optimizers()) {
      for (const LearningRate& rate : optimizer->learning_rates())
        run.log("lr-" + rate.optimizer, rate.value);
    }
  }
  std::string state_key() const override { return "LearningRateMonitor"; }
};

}  // namespace cxtrain
