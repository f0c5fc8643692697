#include "cxtrain/config/strategy_traits.h"

#include <utility>

#include "cxtrain/base/transformed.h"

namespace cxtrain {

StrategyTraits traits_of(const KnownStrategies& strategies, const std::optional<std::string>& name) {
  if (!name) return {};
  const auto known = strategies.find(*name);
  return known == strategies.end() || !known->second ? StrategyTraits{} : known->second->traits;
}

std::vector<std::string> names_of(const KnownStrategies& strategies) {
  return transformed(strategies, &KnownStrategies::value_type::first);
}

KnownStrategy with_comm_hooks(StrategyTraits traits, std::vector<ArgumentSpec> arguments,
                              const KnownCommHooks& hooks) {
  KnownStrategy strategy{.traits = std::move(traits), .arguments = std::move(arguments)};
  if (!strategy.traits.takes_comm_hook) return strategy;
  strategy.comm_hooks = hooks;
  for (const auto& [name, hook] : hooks) {
    if (!hook) continue;
    for (ArgumentSpec argument : hook->arguments) {
      argument.name = argument_of_comm_hook(name, argument.name);
      strategy.arguments.push_back(std::move(argument));
    }
  }
  return strategy;
}

std::string argument_of_comm_hook(std::string_view hook, std::string_view argument) {
  return std::string(hook) + "_" + std::string(argument);
}

}  // namespace cxtrain
