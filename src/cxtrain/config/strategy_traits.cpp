#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

StrategyTraits traits_of(const KnownStrategies& strategies, const std::optional<std::string>& name) {
  if (!name) return {};
  const auto known = strategies.find(*name);
  return known == strategies.end() || !known->second ? StrategyTraits{} : known->second->traits;
}

std::vector<std::string> names_of(const KnownStrategies& strategies) {
  std::vector<std::string> names;
  for (const auto& [name, traits] : strategies) names.push_back(name);
  return names;
}

}  // namespace cxtrain
