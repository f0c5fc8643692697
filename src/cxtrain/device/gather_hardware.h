#pragma once

#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/device/hardware.h"

namespace cxtrain {

/// What all nodes of the world have, each as its first rank sees it, so that all ranks plan from the same
/// picture: GPUs that are free when one rank looks may not be when the next one does. Collective; before any
/// rank touches a GPU.
Hardware gather_hardware(World& world);

/// The picture that rank `me` gets. `seen`: what each rank sees of its own node; `nodes`: the node of each
/// rank. A rank keeps its own view of its node where the node's ranks were given different GPUs to see
/// (Slurm's
/// --gpus-per-task); `env` and `gpu_support` are always its own.
Hardware merge_hardware(const std::vector<Hardware>& seen, const std::vector<int>& nodes, int me);

}  // namespace cxtrain
