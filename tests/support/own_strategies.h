#pragma once

#include "cxtrain/config/fields.h"
#include "cxtrain/config/strategy_traits.h"
#include "strategies/ddp/arguments.h"
#include "strategies/ddp/traits.h"
#include "strategies/ddp_spawn/traits.h"
#include "strategies/dp/traits.h"
#include "strategies/pipeline/arguments.h"
#include "strategies/pipeline/traits.h"
#include "strategies/single/traits.h"
#include "strategies/zero/arguments.h"
#include "strategies/zero/traits.h"

namespace cxtrain::testing {

/// Those that come with the program, with what their plugins say of them.
inline KnownStrategies own_strategies() {
  return {{"ddp", KnownStrategy{ddp_traits(), argument_specs<DdpArgs>()}},
          {"ddp_spawn", KnownStrategy{ddp_spawn_traits(), argument_specs<DdpArgs>()}},
          {"dp", KnownStrategy{dp_traits()}},
          {"pipeline", KnownStrategy{pipeline_traits(), argument_specs<PipelineArgs>()}},
          {"single", KnownStrategy{single_traits()}},
          {"zero", KnownStrategy{zero_traits(), argument_specs<ZeroArgs>()}}};
}

/// The same and one more.
inline KnownStrategies own_strategies_and(const std::string& name, const StrategyTraits& traits) {
  KnownStrategies known = own_strategies();
  known.emplace(name, KnownStrategy{traits});
  return known;
}

}  // namespace cxtrain::testing
