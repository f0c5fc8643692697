#include <cmath>
#include <string>

#include "cxtrain/plugin/plugin_abi.h"
#include "pipeline_strategy.h"
#include "schedule.h"
#include "traits.h"

namespace cxtrain {
namespace {

/// The passes of each stage in a step, and the part of the step in which stages wait.
std::string draw_step(const Plan& plan, std::size_t columns) {
  const PipelineShape shape = shape_of(plan);
  constexpr std::int64_t kMaxPasses = 20'000;  // a step of more is not simulated while a user waits
  if (shape.micro_batches > kMaxPasses / (std::int64_t{shape.stages} * shape.chunks)) return {};
  const std::optional<SimulatedStep> step = simulate(schedule_of(plan), shape);
  if (!step || shape.stages == 1) return {};
  const long bubble = std::lround(100 * step->bubble);
  return "\na step of " + std::to_string(shape.micro_batches) +
         " micro-batches (--accumulate_grad_batches): stages wait " + std::to_string(bubble) +
         " % of it, if backward takes twice as long as forward\n" + draw(*step, shape, columns);
}

}  // namespace
}  // namespace cxtrain

CXTRAIN_PLUGIN("strategy pipeline", [](cxtrain::Registry& registry) {
  cxtrain::StrategyTraits traits = cxtrain::pipeline_traits();
  traits.draw = &cxtrain::draw_step;
  traits.memory = &cxtrain::pipeline_memory;
  traits.kept = &cxtrain::pipeline_kept;
  registry.add("pipeline", "consecutive blocks of the model on different ranks", traits,
               &cxtrain::make_pipeline_strategy);
})
