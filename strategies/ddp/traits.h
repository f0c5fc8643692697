#pragma once

#include <optional>

#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

/// PowerSGD keeps errors from step to step, and a loss scale changes what they mean.
inline std::optional<Problem> refuse_ddp(const Plan& plan) {
  const std::string& hook = plan.strategy_arguments.text("comm_hook");
  if (hook == "powersgd" && plan.precision == "16-mixed")
    return Problem{"strategy.comm_hook", "powersgd works without a loss scale, which 16-mixed needs",
                   "use --precision bf16-mixed, or another comm_hook", MessageCode::conflicting_options};
  if (hook != "none" && plan.strategy_arguments.text("model_averaging_period") != "0")
    return Problem{"strategy.comm_hook",
                   "is for gradients that leave a node, and model_averaging_period keeps them there",
                   "leave one of the two out", MessageCode::conflicting_options};
  return std::nullopt;
}

inline StrategyTraits ddp_traits() {
  return {.ranks = StrategyTraits::Ranks::per_device,
          .devices = StrategyTraits::Devices::parts,
          .launcher = StrategyTraits::Launcher::mpirun,
          .refuse = refuse_ddp};
}

}  // namespace cxtrain
