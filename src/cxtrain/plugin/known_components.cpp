#include "cxtrain/plugin/known_components.h"

#include "cxtrain/config/strategy_choice.h"
#include "cxtrain/config/suggestions.h"
#include "cxtrain/config/switches.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

KnownStrategies load_strategies(Registry& registry, const TrainerOptions& trainer,
                                std::vector<Problem>& problems) {
  PluginLoader loader(registry);
  const std::vector<std::string> names = loader.available(Strategy::kKind);
  KnownStrategies known;
  for (const std::string& name : names) known.emplace(name, std::nullopt);

  const auto load = [&](const std::string& name, std::vector<Problem>& refused) {
    const auto strategy = known.find(name);
    if (strategy == known.end()) return;  // resolve says so
    try {
      loader.require(Strategy::kKind, name);
      strategy->second = KnownStrategy{.traits = registry.traits<Strategy>(name),
                                       .arguments = registry.require(Strategy::kKind, name).arguments};
    } catch (const PluginError& error) {
      refused.push_back({"strategy", error.what(), ""});
    }
  };
  std::vector<Problem> not_yet;
  for (const char* name : kDefaultStrategies) load(name, not_yet);
  for (const std::string& name : strategies_asked_for(trainer, names)) {
    load(name, problems);
    load(traits_of(known, name).joined_as, not_yet);
  }
  return known;
}

std::vector<ChosenComponent> choose_components(Registry& registry, std::string_view kind,
                                               const std::string& key, std::span<const NamedOptions> named,
                                               std::vector<Problem>& problems) {
  PluginLoader loader(registry);
  std::vector<ChosenComponent> chosen;
  for (const NamedOptions& wanted : named) {
    const std::string option = key + "." + wanted.name;
    try {
      loader.require(kind, wanted.name);
      chosen.push_back({wanted.name, Arguments(registry.require(kind, wanted.name).arguments, wanted.args,
                                               option + ".", problems)});
    } catch (const PluginError& error) {
      problems.push_back({option, error.what(), ""});
    }
  }
  return chosen;
}

Plan plan_with_plugins(Registry& registry, const Options& options, const Hardware& hardware,
                       const WorldFacts& launched) {
  PluginLoader loader(registry);
  for (const std::string& file : options.plugins) loader.load(file);
  std::vector<Problem> problems;
  const KnownStrategies strategies = load_strategies(registry, options.trainer, problems);
  Plan plan = resolve(options, hardware, launched, strategies);
  problems.insert(problems.end(), plan.errors.begin(), plan.errors.end());
  plan.callbacks =
      choose_components(registry, "callback", "callbacks", callbacks_asked_for(options), problems);
  plan.loggers = choose_components(registry, "logger", "loggers", loggers_asked_for(options), problems);
  if (!problems.empty()) throw ConfigError(problems);
  return plan;
}

}  // namespace cxtrain
