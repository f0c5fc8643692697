#pragma once

#include <functional>

#include "cxtrain/optim/setup.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/train_context.h"
#include "cxtrain/trainer/tuning.h"

namespace cxtrain {

/// Trains with the sweep, from the model as it is, and puts the model back. Ranks see the same losses and so
/// come to the same result. Groups with a learning rate of their own keep their ratio to the others. `run`
/// gives the parts; its state is left alone. Collective.
LrFinderResult find_learning_rate(const TrainContext::Parts& parts,
                                  const std::function<FitData::Loaders()>& make_loaders,
                                  const OptimizerSetup& setup, const PrecisionPolicy& precision,
                                  const LrSweep& sweep);

}  // namespace cxtrain
