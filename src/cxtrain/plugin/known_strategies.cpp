#include "cxtrain/plugin/known_strategies.h"

#include "cxtrain/config/default_strategies.h"
#include "cxtrain/config/strategy_name.h"
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

Plan plan_with_plugins(Registry& registry, const Options& options, const Hardware& hardware,
                       const WorldFacts& launched) {
  PluginLoader loader(registry);
  for (const std::string& file : options.plugins) loader.load(file);
  std::vector<Problem> problems;
  const KnownStrategies strategies = load_strategies(registry, options.trainer, problems);
  Plan plan = resolve(options, hardware, launched, strategies);
  problems.insert(problems.end(), plan.errors.begin(), plan.errors.end());
  if (!problems.empty()) throw ConfigError(problems);
  return plan;
}

}  // namespace cxtrain
