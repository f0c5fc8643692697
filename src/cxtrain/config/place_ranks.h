#pragma once

#include <vector>

#include "cxtrain/config/device_choice.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

/// Fills plan.ranks, plan.devices and, on GPUs, plan.replicas: each rank of a node gets its share of the
/// devices that were asked for, else of the first ones that the node shows, else they take turns on too few.
/// Needs what `choose_launch` decided; `rank_nodes` is its answer.
void place_ranks(const std::vector<int>& rank_nodes, const Hardware& hardware, const DeviceChoice& devices,
                 Plan& plan);

}  // namespace cxtrain
