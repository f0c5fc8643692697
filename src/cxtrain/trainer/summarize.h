#pragma once

#include <c10/core/Device.h>

#include <span>

#include "cxtrain/report/run_files.h"
#include "cxtrain/trainer/train_context.h"

/// The content of run.json.
namespace cxtrain {

/// Fills in the memory that this rank has used. `devices`: this rank's.
void add_memory(RunSummary& summary, std::span<const at::Device> devices);

/// Fills in the position, the metrics and the speed of a run. `fit`: the fit before, for a call that does not
/// train; null for a run that may train. Talks to no other rank.
void add_progress(RunSummary& summary, const TrainContext& context, const RunSummary* fit);

/// Fills in what the ranks find out together: memory of the largest rank, and whether all ranks hold equal
/// parameters. A difference is logged, and takes nothing from the user that the run has reached. Collective.
void add_comparison(RunSummary& summary, World& world, Strategy& strategy);

}  // namespace cxtrain
