#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/config/values.h"

namespace cxtrain {

/// A learning rate that rises exponentially from `min_lr` to `max_lr` over `num_training` steps (Smith 2017,
/// "Cyclical learning rates", section 3.3); values of Lightning's Tuner.lr_find.
struct LrSweep {
  double min_lr = 1e-8;
  double max_lr = 1;
  std::int64_t num_training = 100;
  double early_stop_threshold = 4;  ///< ends once the loss is so many times the best; 0: never
};

struct LrFinderResult {
  std::vector<double> rates;  ///< of each step
  std::vector<double>
      losses;  ///< after it: exponentially smoothed (0.98, bias corrected), mean over all ranks

  /// Where the loss falls most steeply, not counting the first and last steps; none when there are too few
  /// finite losses.
  std::optional<double> suggestion(std::size_t skip_begin = 10, std::size_t skip_end = 1) const;
  /// As a table with the columns lr and loss.
  std::string to_csv() const;
};

/// Values of Lightning's Tuner.scale_batch_size.
struct BatchSizeSearch {
  using Mode = BatchScaling;
  Mode mode = Mode::power;
  std::int64_t initial = 2;
  std::int64_t steps_per_trial = 3;
  int max_trials = 25;
};

}  // namespace cxtrain
