#include "cxtrain/scaling/cost_estimate.h"

#include <algorithm>

#include "cxtrain/base/text.h"
#include "cxtrain/scaling/prediction.h"

namespace cxtrain {
namespace {

CostEstimate refused(const std::string& why) { return {.refusal = why}; }

/// The strategy of one rank need not be that of several.
bool is_other_training(const Plan& plan, const StudyResult& study) {
  return plan.precision != study.precision || (plan.world_size > 1 && plan.strategy != study.strategy);
}

}  // namespace

CostEstimate estimate_cost(const Plan& plan, std::int64_t max_steps, const StudyResult& study) {
  if (max_steps < 1) return refused("the number of steps is not known; use --max_steps");
  if (std::ranges::none_of(study.sizes, [](const SizeResult& size) { return size.measured(); }))
    return refused("the study has measured nothing");
  if (is_other_training(plan, study))
    return refused("the study is of " + study.strategy + " with " + study.precision + ", and the plan of " +
                   plan.strategy + " with " + plan.precision);
  if (plan.accelerator == "cpu" && study.study.threads < 1)
    return refused("the study does not say how many cores a rank has; add \"threads\": N to its study.json");
  CostEstimate estimate;
  estimate.steps = max_steps;
  double start = 0;
  StudySize largest;
  for (const SizeResult& size : study.sizes) {
    if (!size.measured()) continue;
    start = std::max(start, size.first_step_seconds);
    largest = size.size;
    if (size.size == StudySize{plan.world_size, plan.num_nodes}) {
      estimate.step = size.step;
      estimate.basis = "measured";
    }
  }
  if (estimate.basis.empty()) {
    const bool one_node =
        std::ranges::all_of(study.sizes, [](const SizeResult& size) { return size.size.nodes == 1; });
    if (one_node != (plan.num_nodes == 1))
      return refused(one_node ? "the study has measured one node only, and says nothing about a network"
                              : "the study is of several nodes, and the plan of one");
    if (!one_node &&
        std::int64_t{plan.num_nodes} * largest.ranks != std::int64_t{plan.world_size} * largest.nodes)
      return refused("the study has another number of ranks on a node than the plan");
    const SizeForecast forecast = predict(study, {plan.world_size}).sizes.front();
    if (!forecast.refusal.empty()) return refused(forecast.refusal);
    estimate.step = forecast.step;
    estimate.basis = "predicted";
  }
  const auto of_step = [&](double step) { return start + step * static_cast<double>(max_steps); };
  estimate.seconds = {of_step(estimate.step.value), of_step(estimate.step.low), of_step(estimate.step.high)};
  constexpr double kHour = 3600;
  const double rank_hours = plan.world_size * estimate.seconds.value / kHour;
  if (plan.accelerator == "cpu") {
    estimate.core_hours = rank_hours * study.study.threads;
  } else {
    estimate.gpu_hours = rank_hours * std::max(plan.devices_per_rank, plan.replicas);
  }
  return estimate;
}

std::string to_text(const CostEstimate& estimate) {
  if (!estimate.refusal.empty()) return "none: " + estimate.refusal;
  return formatted(
      "%lld steps of %.3g ms (%.3g to %.3g, %s) take %.3g h (%.3g to %.3g): %.3g %s hours, if model, "
      "data and batch are those of the study; validations and checkpoints are not counted",
      static_cast<long long>(estimate.steps), 1e3 * estimate.step.value, 1e3 * estimate.step.low,
      1e3 * estimate.step.high, estimate.basis.c_str(), estimate.seconds.value / 3600,
      estimate.seconds.low / 3600, estimate.seconds.high / 3600,
      estimate.gpu_hours > 0 ? estimate.gpu_hours : estimate.core_hours,
      estimate.gpu_hours > 0 ? "GPU" : "core");
}

}  // namespace cxtrain
