#pragma once

#include <optional>
#include <string>

#include "arguments.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"
#include "schedule.h"

namespace cxtrain {

/// The schedule of a plan, also of one with errors.
inline Schedule schedule_of(const Plan& plan) {
  const Parsed<Schedule> schedule = parse_choice<Schedule>(plan.strategy_arguments.text("schedule"));
  return schedule ? *schedule : PipelineArgs{}.schedule;
}

inline PipelineShape shape_of(const Plan& plan) {
  const int stages = std::stoi(plan.strategy_arguments.text("stages"));
  const int chunks = std::stoi(plan.strategy_arguments.text("chunks"));
  return {.stages = stages == 0 ? plan.world_size : stages,
          .chunks = schedule_of(plan) == Schedule::interleaved ? chunks : 1,
          .micro_batches = plan.accumulate_grad_batches};
}

inline std::optional<Problem> refuse_pipeline(const Plan& plan) {
  const int ranks = plan.world_size, stages = shape_of(plan).stages;
  if (ranks % stages != 0) {
    return Problem{"strategy.stages",
                   std::to_string(stages) + " stages do not divide " + std::to_string(ranks) + " ranks",
                   "use a number of ranks that is a multiple of the stages", MessageCode::wrong_ranks};
  }
  if (stages == 1 && schedule_of(plan) == Schedule::interleaved) {
    return Problem{"strategy.schedule", "interleaved needs several stages", "use --strategy.schedule 1f1b",
                   MessageCode::conflicting_options};
  }
  if (plan.sync_batchnorm && ranks > stages) {
    return Problem{"trainer.sync_batchnorm", "a pipeline does not synchronise batch norm over its columns",
                   "leave the option out, or use as many stages as ranks", MessageCode::conflicting_options};
  }
  if (plan.recompute_blocks && schedule_of(plan) == Schedule::zero_bubble) {
    return Problem{"trainer.recompute_blocks",
                   "zb1p runs the backward pass of a block in two parts, and a recomputed block has one part",
                   "use --strategy.schedule 1f1b", MessageCode::conflicting_options};
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
