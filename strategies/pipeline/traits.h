#pragma once

#include <optional>
#include <string>

#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

inline std::optional<Problem> refuse_pipeline(const Plan& plan) {
  const int ranks = plan.world_size, asked = std::stoi(plan.strategy_arguments.text("stages"));
  const int stages = asked == 0 ? ranks : asked;
  if (ranks % stages != 0) {
    return Problem{"strategy.stages",
                   std::to_string(stages) + " stages do not divide " + std::to_string(ranks) + " ranks",
                   "use a number of ranks that is a multiple of the stages", MessageCode::wrong_ranks};
  }
  if (stages == 1 && plan.strategy_arguments.text("schedule") == "interleaved") {
    return Problem{"strategy.schedule", "interleaved needs several stages", "use --strategy.schedule 1f1b",
                   MessageCode::conflicting_options};
  }
  if (plan.sync_batchnorm && ranks > stages) {
    return Problem{"trainer.sync_batchnorm", "a pipeline does not synchronise batch norm over its columns",
                   "leave the option out, or use as many stages as ranks", MessageCode::conflicting_options};
  }
  return std::nullopt;
}

inline StrategyTraits pipeline_traits() {
  return {.ranks = StrategyTraits::Ranks::per_device,
          .devices = StrategyTraits::Devices::one,
          .launcher = StrategyTraits::Launcher::mpirun,
          .refuse = refuse_pipeline,
          .divides_layers = true};
}

}  // namespace cxtrain
