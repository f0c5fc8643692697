#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>

#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

/// LibTorch's switches for this process, as the plan has them: benchmark, deterministic,
/// float32_matmul_precision (TF32), and the current device. Rank 0 warns of a precision that the processor
/// emulates.
void apply_compute_settings(const Plan& plan, const WorldFacts& facts, c10::Device device);

/// What to say of a precision that this processor has no instructions for; empty where nothing is amiss.
std::string slow_precision_warning(std::string_view precision, bool processor_has_bf16);

/// What a run misses that multiplies float32 exactly on a device that could do it as TF32; empty where nobody
/// left that open, or the device could not.
std::string tf32_hint(const Plan& plan, bool has_tf32);

/// Gives LibTorch's operations as many threads as this rank has cores for itself (device/core_share.h),
/// unless OMP_NUM_THREADS says how many; rank 0 warns where a rank has fewer than it needs. After
/// `apply_compute_settings`. Collective.
void set_thread_counts(World& world, int data_workers, bool on_gpu);

}  // namespace cxtrain
