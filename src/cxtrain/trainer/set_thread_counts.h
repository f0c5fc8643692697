#pragma once

#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// Gives LibTorch's operations as many threads as this rank has cores for itself (device/core_share.h),
/// unless OMP_NUM_THREADS says how many; rank 0 warns where a rank has fewer than it needs. After
/// `apply_compute_settings`. Collective.
void set_thread_counts(World& world, int data_workers, bool on_gpu);

}  // namespace cxtrain
