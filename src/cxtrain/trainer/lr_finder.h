#pragma once

#include "cxtrain/optim/setup.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/tuning.h"

namespace cxtrain {

/// Trains with the sweep, from the model as it is, and puts the model back. Ranks see the same losses and so
/// come to the same result. Groups with a learning rate of their own keep their ratio to the others. The
/// state of the session's run stays as it is. Collective.
LrFinderResult find_learning_rate(Session& session, DataModule& data, NamedOptimizer swept,
                                  const LrSweep& sweep);

}  // namespace cxtrain
