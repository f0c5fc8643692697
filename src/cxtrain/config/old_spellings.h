#pragma once

#include <span>
#include <string>

#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

/// The options in Lightning 2.x's words: accelerator=ddp becomes strategy=ddp, num_processes=n becomes n
/// devices of the CPU, gpus win over devices, a preset such as ddp_find_unused_parameters_true becomes ddp
/// (its arguments: strategy_arguments.h). What a user should know about it goes to plan.warnings, what has no
/// meaning here to plan.errors. `strategies`: see read_strategy_name. Pure.
TrainerOptions translate_old_spellings(TrainerOptions trainer, const Hardware& hardware,
                                       std::span<const std::string> strategies, Plan& plan);

}  // namespace cxtrain
