#pragma once

#include <memory>
#include <vector>

#include "cxtrain/plugin/registry.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// Adds the callbacks of a run to its context, in the order in which their hooks are called: the user's, the
/// model's, those that the options name, and, in a fit, those that belong to every fit (progress, requests
/// in files, the end of the job's time, stragglers). The user's callbacks and the registry outlive the
/// context. Throws ConfigError. Talks to no other rank.
void add_run_callbacks(TrainContext& context, const std::vector<std::unique_ptr<Callback>>& of_user,
                       const Registry& registry);

}  // namespace cxtrain
