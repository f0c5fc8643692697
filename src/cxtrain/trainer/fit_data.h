#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cxtrain/data/data_loader.h"
#include "cxtrain/trainer/limits.h"

namespace cxtrain {

/// The loaders of a fit, and the limits that follow from their lengths. Both are made anew before every n-th
/// epoch where the options say so, for data modules whose data changes while they train.
class FitData {
 public:
  struct Loaders {
    std::unique_ptr<DataLoader> train, val;  ///< `val` may be null
  };

  /// `make` asks the data module; it and the options outlive this. Throws ConfigError when there are no
  /// training samples, or where options and data contradict each other (`fit_limits`).
  FitData(std::function<Loaders()> make, const TrainerOptions& options,
          std::optional<std::int64_t> model_max_epochs);

  /// Called before each epoch.
  void prepare_epoch(std::int64_t epoch);

  DataLoader& train() { return *loaders_.train; }
  DataLoader* val() { return loaders_.val.get(); }
  const FitLimits& limits() const { return limits_; }

 private:
  void load();

  std::function<Loaders()> make_;
  const TrainerOptions& options_;
  std::optional<std::int64_t> model_max_epochs_;
  std::int64_t loaded_for_ = 0;  ///< epoch
  Loaders loaders_;
  FitLimits limits_;
};

}  // namespace cxtrain
