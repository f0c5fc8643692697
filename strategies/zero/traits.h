#pragma once

#include <map>
#include <optional>

#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

/// Stage 3 needs ranks that map each other's host memory.
inline std::optional<Problem> refuse_zero(const Plan& plan) {
  if (plan.world_size == 1 || plan.strategy_arguments.text("stage") != "3") return std::nullopt;
  const char* const cure = "use --strategy.stage 2, which keeps the parameters on every rank";
  if (plan.accelerator == "gpu") {
    return Problem{"strategy.stage",
                   "3 divides parameters that lie in the host memory of a node, not on GPUs", cure,
                   MessageCode::conflicting_options};
  }
  std::map<int, int> ranks_of_nodes;
  for (const RankPlan& rank : plan.ranks) ++ranks_of_nodes[rank.node];
  for (const auto& [node, ranks] : ranks_of_nodes) {
    if (ranks > 1) return std::nullopt;
  }
  return Problem{"strategy.stage",
                 "3 divides parameters among the ranks of a node, and every node has one rank only", cure,
                 MessageCode::conflicting_options};
}

inline StrategyTraits zero_traits() {
  return {.ranks = StrategyTraits::Ranks::per_device,
          .devices = StrategyTraits::Devices::one,
          .launcher = StrategyTraits::Launcher::mpirun,
          .refuse = refuse_zero};
}

}  // namespace cxtrain
