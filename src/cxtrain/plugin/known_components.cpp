#include "cxtrain/plugin/known_components.h"

#include "cxtrain/config/presets.h"
#include "cxtrain/config/strategy_choice.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/reduce/comm_hook.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {
namespace {

/// Returns the comm hooks that are registered, and, if the options name a hook, those that have a file. Loads
/// the hook that the options name.
KnownCommHooks load_comm_hooks(Registry& registry, const StrategyOptions& options,
                               std::vector<Problem>& problems) {
  PluginLoader loader(registry);
  KnownCommHooks known;
  for (const auto* const given : {&options.args, &options.ddp_args}) {
    const auto named = given->find(kCommHookArgument);
    if (named == given->end() || named->second == kNoCommHook) continue;
    for (const std::string& name : loader.available(CommHook::kKind)) known.emplace(name, std::nullopt);
    if (!known.contains(named->second)) continue;  // resolve says so
    try {
      loader.require(CommHook::kKind, named->second);
    } catch (const PluginError& error) {
      problems.push_back({kCommHookOption, error.what(), "", message_code_of(error)});
    }
  }
  for (const std::string& name : registry.names(CommHook::kKind))
    known[name] =
        KnownCommHook{registry.traits<CommHook>(name), registry.require(CommHook::kKind, name).arguments};
  return known;
}

}  // namespace

KnownStrategies load_strategies(Registry& registry, const Options& options, std::vector<Problem>& problems) {
  PluginLoader loader(registry);
  const KnownCommHooks comm_hooks = load_comm_hooks(registry, options.strategy, problems);
  const std::vector<std::string> names = loader.available(Strategy::kKind);
  KnownStrategies known;
  for (const std::string& name : names) known.emplace(name, std::nullopt);

  const auto load = [&](const std::string& name, std::vector<Problem>& refused) {
    const auto strategy = known.find(name);
    if (strategy == known.end()) return;  // resolve says so
    try {
      loader.require(Strategy::kKind, name);
      strategy->second = with_comm_hooks(registry.traits<Strategy>(name),
                                         registry.require(Strategy::kKind, name).arguments, comm_hooks);
    } catch (const PluginError& error) {
      refused.push_back({"strategy", error.what(), "", message_code_of(error)});
    }
  };
  std::vector<Problem> not_yet;
  for (const char* name : kDefaultStrategies) load(name, not_yet);
  for (const std::string& name : strategies_asked_for(options.trainer, names)) {
    load(name, problems);
    load(traits_of(known, name).joined_as, not_yet);
  }
  return known;
}

ChosenComponents choose_components(Registry& registry, const Options& options,
                                   std::vector<Problem>& problems) {
  PluginLoader loader(registry);
  const auto choose = [&](const char* kind, const char* key, const std::vector<NamedOptions>& asked_for) {
    std::vector<ChosenComponent> chosen;
    for (const NamedOptions& wanted : asked_for) {
      const bool by_itself = &wanted == &asked_for.back() && wanted.name == options.checkpoint.name;
      const std::string option = by_itself ? "checkpoint" : std::string(key) + "." + wanted.name;
      try {
        const std::string name = wanted.registered_name();
        loader.require(kind, name);
        chosen.push_back(
            {name, Arguments(registry.require(kind, name).arguments, wanted.args, option + ".", problems),
             wanted.name});
      } catch (const PluginError& error) {
        problems.push_back({option, error.what(), "", message_code_of(error)});
      }
    }
    return chosen;
  };
  // Braces evaluate from left to right, and so do the problems appear.
  return {choose("callback", "callbacks", callbacks_asked_for(options)),
          choose("logger", "loggers", loggers_asked_for(options))};
}

Plan plan_with_plugins(Registry& registry, const Options& options, const Hardware& hardware,
                       const WorldFacts& launched) {
  PluginLoader loader(registry);
  for (const std::string& file : options.plugins) loader.load(file);
  std::vector<Problem> problems;
  const KnownStrategies strategies = load_strategies(registry, options, problems);
  Plan plan = resolve(options, hardware, launched, strategies);
  problems.insert(problems.end(), plan.errors.begin(), plan.errors.end());
  ChosenComponents chosen = choose_components(registry, options, problems);
  plan.callbacks = std::move(chosen.callbacks);
  plan.loggers = std::move(chosen.loggers);
  if (!problems.empty()) throw ConfigError(problems);
  return plan;
}

}  // namespace cxtrain
