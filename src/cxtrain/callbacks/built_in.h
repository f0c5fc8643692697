#pragma once

#include "cxtrain/plugin/registry.h"

namespace cxtrain {

/// Adds to the registry the callbacks and loggers that the program brings: `early_stopping`, `lr_monitor`,
/// `device_stats`, `divergence_check`, `loss_spike`, and those behind options of the trainer
/// (config/presets.h); and the comm hooks `bf16`, `fp16`, `auto` and `powersgd`. A name that is taken already
/// is left alone.
void register_built_in(Registry& registry);

}  // namespace cxtrain
