#include "cxtrain/cli/planned_model.h"

namespace cxtrain {

PlannedModel::PlannedModel(const Plan& plan, const Options& options, Module& model)
    : model_(model), precision_(precision_policy(plan.precision, plan.amp_level)) {
  const std::vector<at::Device> nowhere(static_cast<std::size_t>(plan.devices_per_rank), at::kMeta);
  trainable(model_).place(nowhere, precision_);
  const bool trains = options.subcommand == "fit" || options.subcommand == "plan";
  if (!trains) return;
  setups_ = optimizer_setups(model_, options);
  targets_ = optimizer_targets(model_, setups_);
}

}  // namespace cxtrain
