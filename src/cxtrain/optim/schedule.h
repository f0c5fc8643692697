#pragma once

#include <cstdint>

#include "cxtrain/optim/setup.h"

namespace cxtrain {

/// The factor on the base learning rates after `t` counts (steps or epochs, as the setup says). `total` is
/// the run's length in those counts, for schedules that reach to its end; 0 when it is not known, which such
/// a schedule refuses with a ConfigError. Pure. PlateauSchedule has a class of its own below.
double schedule_factor(const ScheduleConfig& schedule, std::int64_t t, std::int64_t total);

/// The state of a PlateauSchedule: part of the training state.
struct PlateauState {
  double factor = 1;
  double best = 0;
  bool has_best = false;
  std::int64_t bad_epochs = 0;

  /// Takes the monitored metric of an epoch. A NaN counts as no improvement.
  void observe(const PlateauSchedule& schedule, double metric);
};

}  // namespace cxtrain
