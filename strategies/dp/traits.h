#pragma once

#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

inline StrategyTraits dp_traits() {
  return {.ranks = StrategyTraits::Ranks::one, .devices = StrategyTraits::Devices::replicas};
}

}  // namespace cxtrain
