#include "cxtrain/config/strategy_choice.h"

#include <algorithm>
#include <array>
#include <map>

#include "cxtrain/base/transformed.h"
#include "cxtrain/config/did_you_mean.h"

namespace cxtrain {
namespace {

struct UnsupportedStrategy {
  std::string_view beginning;  ///< of the names of one family: deepspeed, deepspeed_stage_2 ...
  std::string_view instead;
};

constexpr std::string_view kSharded =
    "use --strategy zero, whose --strategy.stage 1, 2 or 3 says what ranks divide; nothing is moved to the "
    "host or to disks";
constexpr std::string_view kForked = "ranks are never forked: use --strategy ddp, or ddp_spawn";
constexpr std::string_view kOtherDevices = "there are GPUs and CPUs only: use --strategy ddp";
constexpr std::string_view kOtherLibraries = "use --strategy ddp, whose ranks talk through NCCL and MPI";

constexpr std::array kUnsupportedStrategies{
    UnsupportedStrategy{"ddp_sharded", kSharded},
    UnsupportedStrategy{"ddp_fully_sharded", kSharded},
    UnsupportedStrategy{"fsdp", kSharded},
    UnsupportedStrategy{"deepspeed", kSharded},
    UnsupportedStrategy{"colossalai", kSharded},
    UnsupportedStrategy{"model_parallel",
                        "use --strategy ddp; for a model that is split over "
                        "devices by hand, --devices_per_rank"},
    UnsupportedStrategy{"rpc_sequential",
                        "for a model that is split over devices by hand, "
                        "use --devices_per_rank"},
    UnsupportedStrategy{"ddp2", "use --strategy ddp: one rank per GPU, on all nodes"},
    UnsupportedStrategy{"ddp_cpu", "use --accelerator cpu --strategy ddp"},
    UnsupportedStrategy{"ddp_notebook", kForked},
    UnsupportedStrategy{"ddp_fork", kForked},
    UnsupportedStrategy{"horovod", kOtherLibraries},
    UnsupportedStrategy{"bagua", kOtherLibraries},
    UnsupportedStrategy{"hivemind", kOtherLibraries},
    UnsupportedStrategy{"collaborative", kOtherLibraries},
    UnsupportedStrategy{"tpu", kOtherDevices},
    UnsupportedStrategy{"single_tpu", kOtherDevices},
    UnsupportedStrategy{"single_xla", kOtherDevices},
    UnsupportedStrategy{"xla", kOtherDevices},
    UnsupportedStrategy{"hpu", kOtherDevices},
    UnsupportedStrategy{"single_hpu", kOtherDevices},
    UnsupportedStrategy{"ipu", kOtherDevices}};

/// What Lightning calls by another name, or means by a preset: a strategy, and an argument of it.
struct Spelling {
  std::string_view typed, name;
  std::string_view argument = {}, value = {};
};
constexpr std::string_view kFindUnused = "find_unused_parameters", kStage = "stage";
constexpr std::array kSpellings{
    Spelling{"single_device", "single"},
    Spelling{"ddp_find_unused_parameters_true", "ddp", kFindUnused, "true"},
    Spelling{"ddp_find_unused_parameters_false", "ddp", kFindUnused, "false"},
    Spelling{"ddp_spawn_find_unused_parameters_true", "ddp_spawn", kFindUnused, "true"},
    Spelling{"ddp_spawn_find_unused_parameters_false", "ddp_spawn", kFindUnused, "false"},
    Spelling{"ddp_sharded", "zero", kStage, "2"},  // FairScale's: optimizer state and gradients
    Spelling{"ddp_fully_sharded", "zero", kStage, "3"},
    Spelling{"fsdp", "zero", kStage, "3"},
    Spelling{"fsdp_native", "zero", kStage, "3"},
    Spelling{"fsdp_cpu_offload", "zero", kStage, "3"},  // CPU ranks have everything on the host
    Spelling{"deepspeed", "zero", kStage, "2"},         // Lightning's default
    Spelling{"deepspeed_stage_1", "zero", kStage, "1"},
    Spelling{"deepspeed_stage_2", "zero", kStage, "2"},
    Spelling{"deepspeed_stage_3", "zero", kStage, "3"}};

/// The strategies that Lightning 1.x has under today's names.
constexpr std::array<std::string_view, 4> kOfLightning{"single", "dp", "ddp", "ddp_spawn"};

bool is_family(std::string_view name, std::string_view family) {
  if (!name.starts_with(family)) return false;
  const std::string_view rest = name.substr(family.size());
  return rest.empty() || rest.front() == '_';
}

using Given = std::map<std::string, std::string>;

bool has_argument(const KnownStrategy& strategy, const std::string& name) {
  return std::ranges::any_of(strategy.arguments, [&](const ArgumentSpec& spec) { return spec.name == name; });
}

/// The strategies that have such an argument, as "ddp, ddp_spawn"; empty when none has.
std::string strategies_with(const std::string& argument, const KnownStrategies& strategies) {
  std::string names;
  for (const auto& [name, known] : strategies) {
    if (known && has_argument(*known, argument)) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

/// What may have been meant by an argument that the strategy lacks.
std::string hint_for_lacking(const std::string& argument, const std::string& prefix,
                             const KnownStrategy& strategy, const std::string& others) {
  if (!others.empty()) return "strategies that have it: " + others;
  const auto names = transformed(strategy.arguments, &ArgumentSpec::name);
  return names.empty() ? "it takes no arguments" : did_you_mean_or_known(argument, names, "--" + prefix);
}

}  // namespace

StrategyName read_strategy_name(std::string_view typed, std::span<const std::string> strategies) {
  if (std::ranges::find(strategies, typed) != strategies.end()) return {std::string(typed), ""};
  for (const Spelling& spelling : kSpellings) {
    if (spelling.typed != typed) continue;
    StrategyName meant{std::string(spelling.name), ""};
    if (!spelling.argument.empty()) meant.arguments.emplace(spelling.argument, spelling.value);
    return meant;
  }
  for (const UnsupportedStrategy& unsupported : kUnsupportedStrategies) {
    if (is_family(typed, unsupported.beginning)) return {"", std::string(unsupported.instead)};
  }
  return {std::string(typed), ""};
}

std::optional<std::string> named_strategy(const TrainerOptions& trainer,
                                          std::span<const std::string> strategies) {
  // "auto" is Lightning's word for "not asked".
  if (!trainer.strategy || trainer.strategy == "auto") return std::nullopt;
  return read_strategy_name(*trainer.strategy, strategies).name;
}

std::vector<std::string> strategies_asked_for(const TrainerOptions& trainer,
                                              std::span<const std::string> strategies) {
  std::vector<std::string> names;
  for (const std::string& typed : {trainer.strategy.value_or(""), trainer.accelerator}) {
    const std::string name = read_strategy_name(typed, strategies).name;
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

bool is_strategy_of_lightning(std::string_view word) {
  if (std::ranges::find(kOfLightning, word) != kOfLightning.end()) return true;
  const StrategyName strategy = read_strategy_name(word);
  return strategy.name != word;
}

Arguments strategy_arguments(const std::string& strategy, const KnownStrategies& strategies,
                             const Options& options, std::vector<Problem>& errors,
                             std::vector<Problem>& warnings) {
  const auto found = strategies.find(strategy);
  if (found == strategies.end() || !found->second) return {};
  const KnownStrategy& known = *found->second;

  Given arguments;
  const std::vector<std::string> names = names_of(strategies);
  for (const std::string& typed : {options.trainer.accelerator, options.trainer.strategy.value_or("")}) {
    for (const auto& [name, value] : read_strategy_name(typed, names).arguments) arguments[name] = value;
  }
  const auto take = [&](const Given& given, const std::string& prefix, bool may_be_ignored) {
    Given suitable;
    for (const auto& [name, value] : given) {
      if (has_argument(known, name)) {
        suitable[name] = arguments[name] = value;
        continue;
      }
      const std::string lacks = "the strategy " + strategy + " has no such argument";
      const std::string others = strategies_with(name, strategies);
      if (may_be_ignored && !others.empty()) {
        warnings.push_back({prefix + name, lacks + ": it is ignored", "strategies that have it: " + others});
      } else {
        errors.push_back({prefix + name, lacks, hint_for_lacking(name, prefix, known, others),
                          MessageCode::unknown_option});
      }
    }
    Arguments(known.arguments, suitable, prefix,
              errors);  // for what it refuses, under the name that was used
  };
  take(options.strategy.ddp_args, "ddp.", /*may_be_ignored=*/true);
  take(options.strategy.args, "strategy.", /*may_be_ignored=*/false);
  std::vector<Problem> refused_already;
  return {known.arguments, arguments, "strategy.", refused_already};
}

std::optional<ChosenCommHook> choose_comm_hook(const std::string& strategy, const KnownStrategies& strategies,
                                               const Arguments& arguments, std::vector<Problem>& errors) {
  const auto known = strategies.find(strategy);
  if (known == strategies.end() || !known->second || !known->second->traits.takes_comm_hook ||
      arguments.values().empty()) {
    return std::nullopt;
  }
  const KnownCommHooks& hooks = known->second->comm_hooks;
  const std::string& name = arguments.text(kCommHookArgument);
  if (name == kNoCommHook) return std::nullopt;
  const auto hook = hooks.find(name);
  if (hook == hooks.end()) {
    std::vector<std::string> names{kNoCommHook};
    for (const auto& [other, facts] : hooks) names.push_back(other);
    errors.push_back({kCommHookOption, "there is no comm hook '" + name + "'",
                      did_you_mean_or_known(name, names, ""), MessageCode::unknown_name});
    return std::nullopt;
  }
  if (!hook->second) return std::nullopt;  // why its file is refused is among the problems already
  Given given;
  for (const ArgumentSpec& spec : hook->second->arguments) {
    const std::string argument = argument_of_comm_hook(name, spec.name);
    if (arguments.given(argument)) given[spec.name] = arguments.text(argument);
  }
  std::vector<Problem> refused_already;
  return ChosenCommHook{name, Arguments(hook->second->arguments, given, "", refused_already),
                        hook->second->traits};
}

}  // namespace cxtrain
