#pragma once

#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

/// Decides plan.precision and plan.amp_level from precision, amp_level, amp_backend and use_amp; needs
/// plan.accelerator and plan.traits. apex' levels, in Lightning's terms of today:
///
///     O0  32-true      O1  16-mixed (autocast)
///     O3  16-true      O2  16-mixed, with half weights except batch norm and float32 master weights
///
/// A level counts where precision is 16 or not given, as in Lightning 1.5; elsewhere a warning says that it
/// does not. A level that was asked for by name keeps float16 on the CPU, where plain `16` becomes
/// bf16-mixed.
void choose_precision(const TrainerOptions& trainer, Plan& plan);

}  // namespace cxtrain
