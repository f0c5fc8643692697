#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/state/stateful.h"

namespace cxtrain {

class TrainContext;

/// How far a fit goes and how often it validates: the options, once the loaders' lengths are known. Numbers
/// only.
struct FitLimits {
  std::int64_t max_epochs = -1;  ///< -1: no limit
  std::int64_t min_epochs = 0;
  std::int64_t max_steps = -1;  ///< -1: no limit
  std::int64_t min_steps = 0;
  std::int64_t train_batches = 0;                ///< micro-batches of an epoch, per rank
  bool length_known = true;                      ///< false: an epoch of a stream may end before
  std::vector<std::int64_t> val_batches = {};    ///< of each loader
  std::int64_t val_every_batches = 0;            ///< 0: never
  std::optional<double> val_every_seconds = {};  ///< instead of a number of batches
  bool val_counts_across_epochs =
      false;  ///< `val_every_batches` counts from the start of training, not of the epoch
  std::int64_t val_every_epochs = 1;
  std::vector<std::int64_t> sanity_batches = {};  ///< of each loader
  std::int64_t accumulate = 1;
  std::int64_t log_every = 50;

  /// Whether no validation falls anywhere but at the end of every epoch.
  bool validates_at_epoch_end_only() const {
    if (total(val_batches) == 0) return true;
    if (val_every_seconds) return false;
    if (val_every_batches == 0) return true;
    return !val_counts_across_epochs && val_every_epochs == 1 && val_every_batches == train_batches;
  }
  /// Optimizer steps of one epoch, and of the whole run (0: unknown).
  std::int64_t steps_per_epoch() const { return (train_batches + accumulate - 1) / accumulate; }
  std::int64_t total_steps() const;

  static std::int64_t total(const std::vector<std::int64_t>& batches) {
    return std::accumulate(batches.begin(), batches.end(), std::int64_t{0});
  }
};

/// Throws ConfigError where the options and the data contradict each other: no training batches left, a
/// val_check_interval longer than the epoch.
FitLimits fit_limits(const TrainerOptions& options, std::optional<std::int64_t> model_max_epochs,
                     std::int64_t available_train_batches,
                     const std::vector<std::int64_t>& available_val_batches);

/// The loaders of a fit, and the limits that follow from their lengths. Both are made anew before every n-th
/// epoch where the options say so, for data modules whose data changes while they train.
class FitData final : public Stateful {
 public:
  struct Loaders {
    std::unique_ptr<DataLoader> train;
    std::vector<std::unique_ptr<DataLoader>> val;  ///< may be empty
  };

  /// Makes the loaders of the context's data. The context stands where the training begins: a fit that is
  /// resumed first has the loaders that were in use when it was saved, so that data which count how often
  /// they were asked come to the same. The context outlives this object. Throws ConfigError if there are no
  /// training samples, if options and data contradict each other (`fit_limits`), or if the ranks have data of
  /// different lengths; on all ranks alike. Collective.
  FitData(const TrainContext& context, std::optional<std::int64_t> model_max_epochs);

  /// Called before each epoch. Collective.
  void prepare_epoch(std::int64_t epoch);

  // The position of a stream, which each rank has for itself.
  std::string state_key() const override { return "stream"; }
  void save(StateDict& state) const override { state = loaders_.train->stream_position(); }
  void load(const StateDict& state) override { loaders_.train->load_stream_position(state); }
  bool differs_between_ranks() const override { return true; }

  DataLoader& train() { return *loaders_.train; }
  std::span<const std::unique_ptr<DataLoader>> val() const { return loaders_.val; }
  const FitLimits& limits() const { return limits_; }
  /// For people: "1437 samples in 12 batches a rank; validation: 360 samples in 3 batches".
  std::string describe() const;

 private:
  void load();
  void require_stream_options() const;

  const TrainContext& context_;
  std::optional<std::int64_t> model_max_epochs_;
  std::int64_t loaded_for_;  ///< epoch
  Loaders loaders_;
  FitLimits limits_;
};

/// How much data a loader has, where ranks must have the same: samples and batches; batches alone where each
/// rank reads a dataset of its own.
std::string describe_length(const DataLoader& loader, const World& world);

/// Throws an AgreedError where the ranks' data, as each describes its own, differ: they would wait for each
/// other's batches. Collective.
void require_same_data(World& world, const std::string& own);

}  // namespace cxtrain
