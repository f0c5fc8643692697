#pragma once

#include "cxtrain/config/strategy_traits.h"
#include "strategies/ddp/traits.h"
#include "strategies/ddp_spawn/traits.h"
#include "strategies/dp/traits.h"
#include "strategies/single/traits.h"

namespace cxtrain::testing {

/// Those that come with the program, with the traits that their plugins register.
inline KnownStrategies own_strategies() {
  return {{"ddp", ddp_traits()},
          {"ddp_spawn", ddp_spawn_traits()},
          {"dp", dp_traits()},
          {"single", single_traits()}};
}

/// The same and one more.
inline KnownStrategies own_strategies_and(const std::string& name, const StrategyTraits& traits) {
  KnownStrategies known = own_strategies();
  known.emplace(name, traits);
  return known;
}

}  // namespace cxtrain::testing
