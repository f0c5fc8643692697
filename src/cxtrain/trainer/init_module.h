#pragma once

#include <functional>
#include <memory>

#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// Implements `Trainer::init_module`. `make` makes the whole model, and is called up to three times, each
/// time with the state that LibTorch's CPU generator has on rank 0. Collective.
std::unique_ptr<Module> init_module(World& world, const Plan& plan, const Options& options,
                                    const std::function<std::unique_ptr<Module>()>& make);

/// Loads the weights that the options name into the whole model, and reports what was left out. Does nothing
/// if the options name none. Throws CheckpointError and FileError if the weights cannot be read or do not
/// fit.
void load_initial_weights(Module& model, const WeightsOptions& weights);

}  // namespace cxtrain
