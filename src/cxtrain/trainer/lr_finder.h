#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxtrain/optim/setup.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/run.h"

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

/// Trains with the sweep, from the model as it is, and puts the model back. Ranks see the same losses and so
/// come to the same result. Groups with a learning rate of their own keep their ratio to the others. `run`
/// gives the parts; its state is left alone. Collective.
LrFinderResult find_learning_rate(const Run::Parts& parts,
                                  const std::function<FitData::Loaders()>& make_loaders,
                                  const OptimizerSetup& setup, bool scale_gradients, const LrSweep& sweep);

}  // namespace cxtrain
