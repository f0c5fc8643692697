#include "cxtrain/optim/overrides.h"

#include <algorithm>
#include <map>

#include "cxtrain/base/text.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/optim/setup_arguments.h"

namespace cxtrain {
namespace {

using Components = std::vector<NamedComponent>;
using Given = std::map<std::string, std::string>;

const NamedComponent* find(const Components& components, const std::string& name) {
  const auto found = std::ranges::find(components, name, &NamedComponent::name);
  return found == components.end() ? nullptr : &*found;
}

/// The component of this name; null, and a problem, where there is none.
const NamedComponent* require(const Components& components, const char* option, const std::string& name,
                              std::vector<Problem>& problems) {
  if (const NamedComponent* found = find(components, name)) return found;
  std::vector<std::string> names;
  for (const NamedComponent& known : components) names.push_back(known.name);
  problems.push_back({option, "there is no '" + name + "'; there are " + joined(names),
                      did_you_mean(name, names), MessageCode::unknown_name});
  return nullptr;
}

/// An argument of a component that only the model knows: some component has to take it.
void check_unnamed(const Components& components, const std::string& prefix, const Given& given,
                   std::vector<Problem>& problems) {
  std::vector<ArgumentSpec> all;
  for (const NamedComponent& component : components) {
    for (const ArgumentSpec& spec : component.arguments) all.push_back(spec);
  }
  for (const auto& argument : given) {
    std::vector<Problem> refused;
    bool taken = false;
    for (const ArgumentSpec& spec : all) {
      if (spec.name != argument.first) continue;
      refused.clear();
      const Arguments checked({spec}, {argument}, prefix, refused);
      if ((taken = refused.empty())) break;
    }
    if (taken) continue;
    if (refused.empty()) const Arguments checked(all, {argument}, prefix, refused);
    problems.insert(problems.end(), refused.begin(), refused.end());
  }
}

void check_component(const Components& components, const char* option, const NamedOptions& asked,
                     std::vector<Problem>& problems) {
  const std::string prefix = std::string(option) + ".";
  if (asked.name.empty()) return check_unnamed(components, prefix, asked.args, problems);
  if (const NamedComponent* named = require(components, option, asked.name, problems))
    Arguments(named->arguments, asked.args, prefix, problems);
}

}  // namespace

OptimizerSetup apply_overrides(OptimizerSetup setup, const NamedOptions& optimizer,
                               const NamedOptions& lr_scheduler, std::vector<Problem>& problems) {
  const bool replaces = !optimizer.name.empty();
  const bool known =
      !replaces || require(known_optimizers(), "optimizer", optimizer.name, problems) != nullptr;
  if (replaces && known) {
    setup.optimizer = default_optimizer(optimizer.name);
    for (ParameterGroup& group : setup.groups) group.lr.reset();  // rates of another optimizer
  }
  if (known && !optimizer.args.empty()) {
    assign(Arguments(argument_specs_of(setup.optimizer), optimizer.args, "optimizer.", problems),
           setup.optimizer);
  }

  if (!lr_scheduler.name.empty()) {
    if (require(known_schedules(), "lr_scheduler", lr_scheduler.name, problems) == nullptr) return setup;
    setup.schedule = default_schedule(lr_scheduler.name);
  }
  const NamedComponent& schedule = *find(known_schedules(), name_of(setup.schedule));
  const Arguments arguments(schedule.arguments, lr_scheduler.args, "lr_scheduler.", problems);
  assign(arguments, setup.schedule);
  if (!lr_scheduler.name.empty() || arguments.given("interval"))
    setup.interval = arguments.text("interval") == "step" ? Interval::step : Interval::epoch;
  return setup;
}

void check_overrides(const NamedOptions& optimizer, const NamedOptions& lr_scheduler,
                     std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  check_component(known_optimizers(), "optimizer", optimizer, problems);
  check_component(known_schedules(), "lr_scheduler", lr_scheduler, problems);
  if (problems.size() > before || (optimizer.name.empty() && lr_scheduler.name.empty())) return;
  // Rules between several arguments, where all of them are known.
  const OptimizerSetup setup =
      apply_overrides({}, optimizer.name.empty() ? NamedOptions{} : optimizer,
                      lr_scheduler.name.empty() ? NamedOptions{} : lr_scheduler, problems);
  const std::vector<Problem> wrong = check_setup(setup);
  problems.insert(problems.end(), wrong.begin(), wrong.end());
}

double learning_rate(const OptimizerSetup& setup) {
  return std::visit([](const auto& config) { return config.lr; }, setup.optimizer);
}

OptimizerSetup with_learning_rate(OptimizerSetup setup, double lr) {
  const double before = learning_rate(setup);
  for (ParameterGroup& group : setup.groups) {
    if (group.lr && before > 0) *group.lr *= lr / before;
  }
  std::visit([lr](auto& config) { config.lr = lr; }, setup.optimizer);
  return setup;
}

}  // namespace cxtrain
