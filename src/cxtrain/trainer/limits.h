#pragma once

#include <cstdint>
#include <optional>

#include "cxtrain/config/options.h"

namespace cxtrain {

/// How far a fit goes and how often it validates: the options, once the loaders' lengths are known. Numbers
/// only.
struct FitLimits {
  std::int64_t max_epochs = -1;  ///< -1: no limit
  std::int64_t min_epochs = 0;
  std::int64_t max_steps = -1;  ///< -1: no limit
  std::int64_t min_steps = 0;
  std::int64_t train_batches = 0;  ///< micro-batches of an epoch, per rank
  std::int64_t val_batches = 0;
  std::int64_t val_every_batches = 0;  ///< 0: never
  bool val_counts_across_epochs =
      false;  ///< `val_every_batches` counts from the start of training, not of the epoch
  std::int64_t val_every_epochs = 1;
  std::int64_t sanity_batches = 0;
  std::int64_t accumulate = 1;
  std::int64_t log_every = 50;

  /// Whether no validation falls anywhere but at the end of every epoch.
  bool validates_at_epoch_end_only() const {
    if (val_batches == 0 || val_every_batches == 0) return true;
    return !val_counts_across_epochs && val_every_epochs == 1 && val_every_batches == train_batches;
  }
  /// Optimizer steps of one epoch, and of the whole run (0: unknown).
  std::int64_t steps_per_epoch() const { return (train_batches + accumulate - 1) / accumulate; }
  std::int64_t total_steps() const;
};

/// Throws ConfigError where the options and the data contradict each other: no training batches left, a
/// val_check_interval longer than the epoch.
FitLimits fit_limits(const TrainerOptions& options, std::optional<std::int64_t> model_max_epochs,
                     std::int64_t available_train_batches, std::int64_t available_val_batches);

}  // namespace cxtrain
