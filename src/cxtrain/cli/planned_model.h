#pragma once

#include <vector>

#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/optimization.h"

namespace cxtrain {

/// A model without memory (`ShapesOnly`), as a plan trains or evaluates the model: with its optimizers, or
/// without.
class PlannedModel {
 public:
  /// Gives the model the dtypes of the plan. `plan`, `options` and `model` outlive the object. Throws
  /// ConfigError for optimizers that the model cannot have.
  PlannedModel(const Plan& plan, const Options& options, Module& model);
  PlannedModel(const PlannedModel&) = delete;
  PlannedModel& operator=(const PlannedModel&) = delete;

  ModelOutline outline() const { return {trainable(model_), targets_, precision_}; }

 private:
  Module& model_;
  const PrecisionPolicy precision_;
  std::vector<NamedOptimizer> setups_;
  std::vector<OptimizerTarget> targets_;  ///< of `setups_`
};

}  // namespace cxtrain
