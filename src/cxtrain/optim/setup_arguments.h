#pragma once

#include <string>
#include <vector>

#include "cxtrain/config/arguments.h"
#include "cxtrain/optim/setup.h"

/// Optimizers and schedules as components with arguments: what `--optimizer` and `--lr_scheduler` may name,
/// and which numbers each takes. Ranges are those of torch.optim and torch.optim.lr_scheduler, narrowed where
/// a value that they take makes every parameter NaN (eps = 0) or stops the training in silence (gamma = 0).
namespace cxtrain {

struct NamedComponent {
  std::string name, help;
  std::vector<ArgumentSpec> arguments;
};
const std::vector<NamedComponent>& known_optimizers();
const std::vector<NamedComponent>& known_schedules();  ///< each with `interval`, step or epoch

/// Returns the arguments of the optimizer's kind, with their defaults.
std::vector<ArgumentSpec> argument_specs_of(const OptimizerConfig& config);

/// The optimizer or schedule of this name with its defaults; the name is known.
OptimizerConfig default_optimizer(const std::string& name);
ScheduleConfig default_schedule(const std::string& name);
std::string name_of(const OptimizerConfig& config);
/// The class's name in torch.optim, as "AdamW" for "adamw"; a user's optimizer has its own name.
std::string torch_name_of(const OptimizerConfig& config);
std::string name_of(const ScheduleConfig& config);

/// Puts the arguments that were given into the configuration.
void assign(const Arguments& arguments, OptimizerConfig& config);
void assign(const Arguments& arguments, ScheduleConfig& config);

/// Every hyperparameter outside of its range, as a problem of the option that sets it: the check of what a
/// model's configure_optimizers returned and the command line changed.
std::vector<Problem> check_setup(const OptimizerSetup& setup);

}  // namespace cxtrain
