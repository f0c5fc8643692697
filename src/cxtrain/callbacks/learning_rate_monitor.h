#pragma once

#include "cxtrain/callbacks/callback.h"

namespace cxtrain {

/// Logs the learning rate as `lr-Adam`, or as `lr-Adam/pg1`, `lr-Adam/pg2` ... if the optimizer has several
/// parameter groups: Lightning's LearningRateMonitor, with Lightning's names, on logging steps.
class LearningRateMonitor final : public Callback {
 public:
  void on_train_batch_start(Run& run, const Batch& batch, std::int64_t batch_idx) override;
  std::string state_key() const override { return "LearningRateMonitor"; }
};

}  // namespace cxtrain
