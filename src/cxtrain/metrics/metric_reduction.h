#pragma once

#include <span>

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

}  // namespace cxtrain
