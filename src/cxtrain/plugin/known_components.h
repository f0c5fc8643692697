#pragma once

#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"
#include "cxtrain/plugin/registry.h"

namespace cxtrain {

/// Finds the strategies that there are, registered or in a plugin's file, for `resolve`. Loads those that a
/// plan for these options may choose into the registry, for what they say of themselves, and the comm hook
/// that the options name; the options' own plugin files have to be loaded before. Appends to `problems` why
/// the strategy or the hook that was asked for cannot be loaded. A default that cannot be loaded is no
/// problem yet: whoever makes it says so.
KnownStrategies load_strategies(Registry& registry, const Options& options, std::vector<Problem>& problems);

/// Which callbacks and loggers a run makes, each in the order of their calls.
struct ChosenComponents {
  std::vector<ChosenComponent> callbacks, loggers;
};

/// Loads the callbacks and loggers that the options ask for (config/presets.h) into the registry, and checks
/// their arguments. Appends to `problems` those that there are not, and every argument that does not suit.
/// The options' own plugin files have to be loaded before.
ChosenComponents choose_components(Registry& registry, const Options& options,
                                   std::vector<Problem>& problems);

/// `resolve` after loading the options' plugin files and those strategies into the registry, with the
/// callbacks and loggers that the options ask for. Throws ConfigError with every reason why there is no plan,
/// and PluginError for a plugin file that is none.
Plan plan_with_plugins(Registry& registry, const Options& options, const Hardware& hardware,
                       const WorldFacts& launched);

}  // namespace cxtrain
