#pragma once

#include <string>
#include <vector>

#include "cxtrain/config/hyperparameters.h"
#include "cxtrain/report/model_summary.h"
#include "cxtrain/trainer/train_context.h"

/// What a run says of itself at its beginning.
namespace cxtrain {

/// The arguments of model and data, by the names of options.
Hyperparameters arguments_of(const Module& module, const DataModule& data);
/// The same, with what the options say of the optimizer, the schedule and the batches.
Hyperparameters hyperparameters_of(const TrainContext& context);

/// Logs the plan, the strategy, the folder and, if the options want it, the model. `layers`: of the model.
void announce(const TrainContext& context, const std::vector<LayerRow>& layers);

/// Logs the place of each rank, in the log's file: who looks for a slow node later asks where which rank was.
/// Collective.
void record_places(World& world, const Plan& plan);

}  // namespace cxtrain
