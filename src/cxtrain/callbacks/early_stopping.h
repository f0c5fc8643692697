#pragma once

#include <string>

#include "cxtrain/callbacks/callback.h"

namespace cxtrain {

/// Stops when a monitored metric has not improved for `patience` validations; Lightning's EarlyStopping. The
/// metric is a mean over all ranks, so that all come to the same decision.
class EarlyStopping final : public Callback {
 public:
  struct Options {
    std::string monitor;
    std::string mode = "min";  ///< min | max
    int patience = 3;
    double min_delta = 0;
    bool check_finite = true;  ///< stop when the metric is NaN or infinite
  };
  /// Throws ConfigError for a mode that is neither, or a negative patience or delta.
  explicit EarlyStopping(Options options);

  bool monitors() const override { return true; }
  /// Throws TrainingError when nothing was logged under the monitored name, naming what was.
  void on_validation_end(RunView& run) override;

 private:
  Options options_;
  double best_;
  int wait_ = 0;
};

}  // namespace cxtrain
