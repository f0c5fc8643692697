#pragma once

#include <memory>
#include <optional>

#include "cxtrain/optim/optimizer.h"
#include "cxtrain/optim/schedule.h"
#include "cxtrain/precision/grad_scaler.h"
#include "cxtrain/trainer/limits.h"
#include "cxtrain/trainer/run.h"

namespace cxtrain {

/// What follows a complete backward: gradients synchronised, unscaled and clipped, the optimizer stepped, the
/// loss scale and the learning rate moved on. Nothing here waits for the device.
class Optimization {
 public:
  /// The strategy has been set up for the optimizer. Talks to no other rank. Throws ConfigError.
  Optimization(Run& run, const OptimizerSetup& setup, const FitLimits& limits, bool scale_gradients);

  /// One optimizer step; counts it. `recompute` runs forward and backward again, for optimizers that need a
  /// closure.
  void step(const std::function<at::Tensor()>& recompute);
  /// At the end of an epoch, after its validation.
  void end_epoch();

  /// The learning rate stays what it is, whatever the schedule says.
  void hold_learning_rate() { held_ = true; }

  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  void log_gradient_norms();
  void clip();
  void update_learning_rate();

  Run& run_;
  OptimizerSetup setup_;
  std::int64_t log_every_;
  bool held_ = false;
  std::int64_t total_counts_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<GradScaler> scaler_;
};

}  // namespace cxtrain
