#pragma once

#include <cstdint>
#include <string>

#include "cxtrain/base/each_field.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/scaling/analysis.h"

namespace cxtrain {

/// What a training will cost, by a study of its steps.
struct CostEstimate {
  std::string refusal = {};  ///< why there is no estimate; empty: there is one
  std::string basis = {};    ///< "measured" or "predicted"
  std::int64_t steps = 0;
  Estimate step = {};     ///< in seconds
  Estimate seconds = {};  ///< of the training, start-up included, without validations and checkpoints
  double core_hours = 0;  ///< on CPUs
  double gpu_hours = 0;

  void fields(auto&& field) {
    CXTRAIN_EACH(field, refusal, basis, steps);
    field("step_seconds", step);
    CXTRAIN_EACH(field, seconds, core_hours, gpu_hours);
  }
};

/// Estimates a training of `max_steps` steps by a study: from the study's own size if it has one with the
/// plan's ranks and nodes, else from its prediction. Refuses a training without a number of steps, and a
/// study of another strategy or precision. Pure.
CostEstimate estimate_cost(const Plan& plan, std::int64_t max_steps, const StudyResult& study);

/// "1000 steps of 12.3 ms ...", or why there is no estimate.
std::string to_text(const CostEstimate& estimate);

}  // namespace cxtrain
