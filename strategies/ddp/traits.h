#pragma once

#include <optional>

#include "arguments.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

/// Settings that contradict each other.
inline std::optional<Problem> refuse_ddp(const Plan& plan) {
  const auto args = read_args<DdpArgs>(plan.strategy_arguments);
  const bool averages = args.model_averaging_period > 0;
  if (args.comm_hook != kNoCommHook && averages)
    return Problem{"strategy.comm_hook",
                   "is for gradients that leave a node, and model_averaging_period keeps them there",
                   "leave one of the two out", MessageCode::conflicting_options};
  if (args.comm_hook == "powersgd" && plan.devices_per_rank > 1)
    return Problem{"strategy.comm_hook", "powersgd takes the gradients of one device, and a rank has several",
                   "use bf16, or --devices_per_rank 1", MessageCode::conflicting_options};
  if (has_outer_step(args) && !averages)
    return Problem{
        args.outer_momentum > 0 ? "strategy.outer_momentum" : "strategy.outer_lr",
        "belongs to the step that ends a period of model averaging, and the training has no periods",
        "give the steps of a period: --strategy.model_averaging_period 100",
        MessageCode::conflicting_options};
  return std::nullopt;
}

inline StrategyTraits ddp_traits() {
  return {.ranks = StrategyTraits::Ranks::per_device,
          .devices = StrategyTraits::Devices::parts,
          .launcher = StrategyTraits::Launcher::mpirun,
          .refuse = refuse_ddp,
          .takes_comm_hook = true};
}

}  // namespace cxtrain
