#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cxtrain/optim/optimizer.h"
#include "cxtrain/optim/schedule.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// Sets the learning rates of one optimizer by its schedule. Nothing here waits for the device.
class LearningRateControl {
 public:
  /// The optimizer and the context outlive this object. `frequency`: the optimizer steps in each
  /// `frequency`-th step of the fit.
  LearningRateControl(OptimizerSetup setup, std::string name, Optimizer& optimizer, TrainContext& context,
                      const FitLimits& limits, std::int64_t frequency);

  /// The optimizer has stepped.
  void count_step() {
    ++steps_;
    if (interval_ == Interval::step) update();
  }
  /// At the end of an epoch, after its validation. Throws TrainingError if the metric of a plateau schedule
  /// has not been logged. Collective.
  void end_epoch();
  /// Sets the rate of the first parameter group, and scales the rates of the other groups alike. Throws
  /// TrainingError if the base learning rate is 0.
  void set(double lr);
  /// The learning rates stay as they are, whatever the schedule says.
  void hold() { held_ = true; }

  void save(StateDict& state) const;
  void load(const StateDict& state);

 private:
  void update();
  void set_factor(double factor) {
    factor_ = factor;
    optimizer_.set_lr_factor(factor);
  }

  OptimizerSetup setup_;
  std::string name_;
  Optimizer& optimizer_;
  TrainContext& context_;
  Interval interval_;
  std::int64_t total_counts_;
  PlateauState plateau_;
  double factor_ = 1;                ///< on the base learning rates
  std::optional<double> scheduled_;  ///< the factor of the schedule, which `set` leaves as it is
  bool held_ = false;                ///< `factor_`
  std::int64_t steps_ = 0;           ///< of this optimizer
};

}  // namespace cxtrain
