#pragma once

#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

inline StrategyTraits ddp_spawn_traits() {
  return {.ranks = StrategyTraits::Ranks::per_device,
          .devices = StrategyTraits::Devices::parts,
          .launcher = StrategyTraits::Launcher::spawn,
          .joined_as = "ddp"};
}

}  // namespace cxtrain
