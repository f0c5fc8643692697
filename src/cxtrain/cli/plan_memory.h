#pragma once

#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// Fills in the memory that each rank of a plan without errors needs, and appends an error for a device that
/// has less, or a model that the strategy cannot train. `model`: built under `ShapesOnly`, which still lives.
void fill_in_memory(Plan& plan, const Hardware& hardware, const Options& options, Module& model);

}  // namespace cxtrain
