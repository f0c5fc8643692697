#pragma once

#include <optional>

#include "cxtrain/config/fields.h"
#include "cxtrain/config/plan.h"
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

struct TopKArgs {
  double fraction = 0.01;
  void fields(auto&& field) { field("fraction", fraction, "part that is sent", Range::between(0, 1)); }
};

/// `bf16`; `topk`, which refuses `--precision 16-mixed`, and remembers a gradient; and `damaged`, whose file
/// cannot be loaded.
inline KnownCommHooks test_comm_hooks() {
  const auto refuse = +[](const Plan& plan) -> std::optional<Problem> {
    if (plan.precision != "16-mixed") return std::nullopt;
    return Problem{"strategy.comm_hook", "topk needs no loss scale", "", MessageCode::conflicting_options};
  };
  return {{"bf16", KnownCommHook{}},
          {"damaged", std::nullopt},
          {"topk", KnownCommHook{{.refuse = refuse, .remembered_gradients = 1}, argument_specs<TopKArgs>()}}};
}

/// Those that come with the program, with what their plugins say of them.
inline KnownStrategies own_strategies() {
  const KnownCommHooks hooks = test_comm_hooks();
  return {{"ddp", with_comm_hooks(ddp_traits(), argument_specs<DdpArgs>(), hooks)},
          {"ddp_spawn", with_comm_hooks(ddp_spawn_traits(), argument_specs<DdpArgs>(), hooks)},
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
