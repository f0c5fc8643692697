#include "cxtrain/config/strategy_arguments.h"

#include <algorithm>
#include <map>

#include "cxtrain/config/nearest_name.h"
#include "cxtrain/config/strategy_name.h"

namespace cxtrain {
namespace {

using Given = std::map<std::string, std::string>;

bool has_argument(const KnownStrategy& strategy, const std::string& name) {
  return std::any_of(strategy.arguments.begin(), strategy.arguments.end(),
                     [&](const ArgumentSpec& spec) { return spec.name == name; });
}

/// The strategies that have such an argument, as "ddp, ddp_spawn"; empty when none has.
std::string strategies_with(const std::string& argument, const KnownStrategies& strategies) {
  std::string names;
  for (const auto& [name, known] : strategies) {
    if (known && has_argument(*known, argument)) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

/// What may have been meant by an argument that the strategy lacks.
std::string hint_for_lacking(const std::string& argument, const std::string& prefix,
                             const KnownStrategy& strategy, const std::string& others) {
  if (!others.empty()) return "strategies that have it: " + others;
  std::vector<std::string> names;
  for (const ArgumentSpec& spec : strategy.arguments) names.push_back(spec.name);
  const std::string near = did_you_mean(argument, names, "--" + prefix);
  if (!near.empty()) return near;
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "known are " : ", ") + name;
  return known.empty() ? "it takes no arguments" : known;
}

}  // namespace

Arguments strategy_arguments(const std::string& strategy, const KnownStrategies& strategies,
                             const Options& options, std::vector<Problem>& errors,
                             std::vector<Problem>& warnings) {
  const auto found = strategies.find(strategy);
  if (found == strategies.end() || !found->second) return {};
  const KnownStrategy& known = *found->second;

  Given arguments;
  const std::vector<std::string> names = names_of(strategies);
  for (const std::string& typed : {options.trainer.accelerator, options.trainer.strategy.value_or("")}) {
    for (const auto& [name, value] : read_strategy_name(typed, names).arguments) arguments[name] = value;
  }
  const auto take = [&](const Given& given, const std::string& prefix, bool may_be_ignored) {
    Given suitable;
    for (const auto& [name, value] : given) {
      if (has_argument(known, name)) {
        suitable[name] = arguments[name] = value;
        continue;
      }
      const std::string lacks = "the strategy " + strategy + " has no such argument";
      const std::string others = strategies_with(name, strategies);
      if (may_be_ignored && !others.empty()) {
        warnings.push_back({prefix + name, lacks + ": it is ignored", "strategies that have it: " + others});
      } else {
        errors.push_back({prefix + name, lacks, hint_for_lacking(name, prefix, known, others)});
      }
    }
    Arguments(known.arguments, suitable, prefix,
              errors);  // for what it refuses, under the name that was used
  };
  take(options.strategy.ddp_args, "ddp.", /*may_be_ignored=*/true);
  take(options.strategy.args, "strategy.", /*may_be_ignored=*/false);
  std::vector<Problem> refused_already;
  return {known.arguments, arguments, "strategy.", refused_already};
}

}  // namespace cxtrain
