#pragma once

#include "cxtrain/config/strategy_traits.h"

namespace cxtrain {

inline StrategyTraits single_traits() { return {.ranks = StrategyTraits::Ranks::one}; }

}  // namespace cxtrain
