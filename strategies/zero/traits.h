#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "arguments.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

/// What the user asked for.
inline ParameterPlace asked_place(const Plan& plan) {
  const auto asked = parse_choice<ParameterPlace>(plan.strategy_arguments.text("parameters"));
  return asked ? *asked : ParameterPlace::automatic;
}

inline bool divides_parameters(const Plan& plan) { return plan.strategy_arguments.text("stage") == "3"; }

/// Where a plan's parameters lie, as far as the plan says: `automatic` stays, if stage 3 divides no
/// parameters, and if only the ranks can find out whether they share memory.
inline ParameterPlace parameter_place_of(const Plan& plan) {
  if (plan.world_size == 1 || !divides_parameters(plan)) return ParameterPlace::automatic;
  if (asked_place(plan) != ParameterPlace::automatic) return asked_place(plan);
  const std::vector<int> on_nodes = ranks_on_nodes(plan);
  const bool neighbours = std::ranges::any_of(on_nodes, [](int ranks) { return ranks > 1; });
  return plan.accelerator == "cpu" && neighbours ? ParameterPlace::automatic : ParameterPlace::all;
}

/// Whether a rank keeps shards only, and the blocks of the model are gathered.
inline bool gathers_blocks(ParameterPlace place) {
  return place == ParameterPlace::node || place == ParameterPlace::all;
}

/// One copy needs ranks that map each other's host memory.
inline std::optional<Problem> refuse_zero(const Plan& plan) {
  const auto refuse = [](const char* why, const char* cure) {
    return Problem{"strategy.parameters", why, cure, MessageCode::conflicting_options};
  };
  if (asked_place(plan) != ParameterPlace::automatic && !divides_parameters(plan))
    return refuse("is for stage 3, which divides the parameters",
                  "use --strategy.stage 3, or leave the option out");
  if (parameter_place_of(plan) != ParameterPlace::mapped) return std::nullopt;
  const char* const cure = "use --strategy.parameters all, or --strategy.stage 2";
  if (plan.accelerator == "gpu") return refuse("mapped is for host memory, and parameters lie on GPUs", cure);
  const std::vector<int> on_nodes = ranks_on_nodes(plan);
  if (std::ranges::all_of(on_nodes, [](int ranks) { return ranks == 1; }))
    return refuse("mapped is for the ranks of a node, and every node has one rank only", cure);
  return std::nullopt;
}

inline StrategyTraits zero_traits() {
  return {.ranks = StrategyTraits::Ranks::per_device,
          .devices = StrategyTraits::Devices::one,
          .launcher = StrategyTraits::Launcher::mpirun,
          .refuse = refuse_zero};
}

}  // namespace cxtrain
