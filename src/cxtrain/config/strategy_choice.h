#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/arguments.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"

/// Which strategy the options mean, and with which arguments. Pure.
namespace cxtrain {

/// What one of Lightning's names for a strategy means here.
struct StrategyName {
  std::string name;     ///< the strategy that runs; empty when there is none
  std::string instead;  ///< without a name: what to use instead
  /// What the name of a preset says, such as `ddp_find_unused_parameters_true`.
  std::map<std::string, std::string> arguments = {};
};

/// Reads the names of Lightning 1.x and 2.x. A name that Lightning does not have is taken as it is: a plugin
/// may define it. So is any of `strategies`, which there are: a plugin may have a name that Lightning had.
/// Pure.
StrategyName read_strategy_name(std::string_view typed, std::span<const std::string> strategies = {});

/// The strategy that `trainer.strategy` names, in today's word; nothing where it leaves the choice to the
/// plan. `strategies`: as above. Pure.
std::optional<std::string> named_strategy(const TrainerOptions& trainer,
                                          std::span<const std::string> strategies);

/// The strategies that the options name, in any of Lightning's spellings; the accelerator, too, may name one.
/// There need not be a strategy of such a name. Pure.
std::vector<std::string> strategies_asked_for(const TrainerOptions& trainer,
                                              std::span<const std::string> strategies);

/// Whether Lightning 1.x took this word for `accelerator` (or `distributed_backend`) to mean a strategy.
bool is_strategy_of_lightning(std::string_view word);

inline constexpr const char* kStrategyOfOneRank = "single";
inline constexpr const char* kStrategyOfSeveralRanks = "ddp";
inline constexpr const char* kStrategyOfSpawnedRanks = "ddp_spawn";

inline constexpr std::array kDefaultStrategies{kStrategyOfOneRank, kStrategyOfSeveralRanks,
                                               kStrategyOfSpawnedRanks};

/// The arguments that these options give to a strategy: its defaults, over them what the name of a preset
/// says (`ddp_find_unused_parameters_true`), over these `Options::strategy`. Appends to `errors` every value
/// that does not suit, and every argument that the strategy lacks; one of these that was given under the
/// older name `ddp.ARG`, and that another strategy has, goes to `warnings` instead. Nothing is said of a
/// strategy that is not among `strategies`, or of which nothing is known. Pure.
Arguments strategy_arguments(const std::string& strategy, const KnownStrategies& strategies,
                             const Options& options, std::vector<Problem>& errors,
                             std::vector<Problem>& warnings);

/// Returns the comm hook that the checked arguments of a strategy name, if the strategy takes one. Appends to
/// `errors` a name that no hook has. Pure.
std::optional<ChosenCommHook> choose_comm_hook(const std::string& strategy, const KnownStrategies& strategies,
                                               const Arguments& arguments, std::vector<Problem>& errors);

}  // namespace cxtrain
