#pragma once

#include "../ddp/traits.h"

namespace cxtrain {

inline StrategyTraits ddp_spawn_traits() {
  StrategyTraits traits = ddp_traits();
  traits.launcher = StrategyTraits::Launcher::spawn;
  traits.joined_as = "ddp";
  return traits;
}

}  // namespace cxtrain
