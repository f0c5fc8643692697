#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/metrics/metric.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// Gives all metrics the states of all ranks. One `World::sum` in float64 carries the sums, means and counts
/// of all metrics, whatever their dtypes; minima, maxima and rows of all metrics travel in one
/// `World::all_gather`, if any metric has such states. A rank without samples contributes initial states.
/// Throws TrainingError, on all ranks, if the rows of all ranks exceed 2 GiB. Collective: every rank passes
/// metrics of equal states.
void reduce_over_ranks(std::span<Metric* const> metrics, World& world);

/// Returns what one rank loads in place of what several ranks have saved by `Metric::save`: their states,
/// added.
StateDict merge_saved_metric(std::span<const StateDict* const> saved);

/// The metrics that a model has registered; the model owns them.
class ModelMetrics {
 public:
  /// Takes these metrics, which outlive their use here, and resets their states.
  void set(std::vector<Metric*> metrics) {
    metrics_ = std::move(metrics);
    reset();
  }
  /// Returns the metric of this name; null if there is none.
  Metric* find(std::string_view name) const;

  /// Gives the metrics the states of all ranks, before the hooks at the end of an epoch. Collective.
  void reduce(World& world);
  void reset() {
    for (Metric* metric : metrics_) metric->reset();
  }
  bool empty() const { return metrics_.empty(); }

  void save(StateDict& state) const;
  /// Loads the metrics after a `reset`. A metric that the saved model did not have begins with its initial
  /// states.
  void load(const StateDict& state);
  /// Adds the states of all ranks; `saved` and `into` are states of `save`.
  static void merge(std::span<const StateDict* const> saved, StateDict& into);

 private:
  std::vector<Metric*> metrics_;
};

}  // namespace cxtrain
