#pragma once

#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

inline StrategyTraits zero_traits() {
  return {.ranks = StrategyTraits::Ranks::per_device,
          .devices = StrategyTraits::Devices::one,
          .launcher = StrategyTraits::Launcher::mpirun};
}

}  // namespace cxtrain
