#pragma once

#include "../ddp/traits.h"

namespace cxtrain {

inline StrategyTraits ddp_spawn_traits() {
  return {.ranks = StrategyTraits::Ranks::per_device,
          .devices = StrategyTraits::Devices::parts,
          .launcher = StrategyTraits::Launcher::spawn,
          .joined_as = "ddp",
          .refuse = refuse_ddp,
          .takes_comm_hook = true};
}

}  // namespace cxtrain
