#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/config/values.h"

namespace cxtrain {

/// A learning rate that rises exponentially from `min_lr` to `max_lr` over `num_training` steps (Smith 2017,
/// "Cyclical learning rates", section 3.3); defaults of Lightning's Tuner.lr_find.
struct LrSweep {
  double min_lr = 1e-8;
  double max_lr = 1;
  std::int64_t num_training = 100;
  double early_stop_threshold = 4;  ///< ends if the loss exceeds this multiple of the best; 0: never
};

struct LrFinderResult {
  std::vector<double> rates;  ///< learning rate of each step
  /// Loss after each step: exponentially smoothed (0.98, bias corrected), mean over all ranks.
  std::vector<double> losses;

  /// Returns the rate at which the loss falls most steeply, without the first and last steps; absent if there
  /// are too few finite losses.
  std::optional<double> suggestion(std::size_t skip_begin = 10, std::size_t skip_end = 1) const;
  /// Returns a table with the columns lr and loss.
  std::string to_csv() const;
};

/// Defaults of Lightning's Tuner.scale_batch_size.
struct BatchSizeSearch {
  using Mode = BatchScaling;
  Mode mode = Mode::power;
  std::int64_t initial = 2;
  std::int64_t steps_per_trial = 3;
  int max_trials = 25;
};

}  // namespace cxtrain
