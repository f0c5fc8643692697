#include "cxtrain/config/strategy_name.h"

#include <algorithm>
#include <array>

namespace cxtrain {
namespace {

struct Retired {
  std::string_view beginning;  ///< of the names of one family: deepspeed, deepspeed_stage_2 ...
  std::string_view instead;
};

constexpr std::string_view kSharded =
    "parameters are not sharded here: use --strategy ddp; where memory is short, --precision 16-mixed, and "
    "smaller "
    "batches with --accumulate_grad_batches";
constexpr std::string_view kForked = "ranks are never forked: use --strategy ddp, or ddp_spawn";
constexpr std::string_view kOtherDevices = "there are GPUs and CPUs only: use --strategy ddp";
constexpr std::string_view kOtherLibraries = "use --strategy ddp, whose ranks talk through NCCL and MPI";

constexpr std::array kRetiredStrategies{Retired{"ddp_sharded", kSharded},
                                        Retired{"ddp_fully_sharded", kSharded},
                                        Retired{"fsdp", kSharded},
                                        Retired{"deepspeed", kSharded},
                                        Retired{"colossalai", kSharded},
                                        Retired{"model_parallel",
                                                "use --strategy ddp; for a model that is split over "
                                                "devices by hand, --devices_per_rank"},
                                        Retired{"rpc_sequential",
                                                "for a model that is split over devices by hand, "
                                                "use --devices_per_rank"},
                                        Retired{"ddp2", "use --strategy ddp: one rank per GPU, on all nodes"},
                                        Retired{"ddp_cpu", "use --accelerator cpu --strategy ddp"},
                                        Retired{"ddp_notebook", kForked},
                                        Retired{"ddp_fork", kForked},
                                        Retired{"horovod", kOtherLibraries},
                                        Retired{"bagua", kOtherLibraries},
                                        Retired{"hivemind", kOtherLibraries},
                                        Retired{"collaborative", kOtherLibraries},
                                        Retired{"tpu", kOtherDevices},
                                        Retired{"single_tpu", kOtherDevices},
                                        Retired{"single_xla", kOtherDevices},
                                        Retired{"xla", kOtherDevices},
                                        Retired{"hpu", kOtherDevices},
                                        Retired{"single_hpu", kOtherDevices},
                                        Retired{"ipu", kOtherDevices}};

/// "ddp_spawn_find_unused_parameters_true" and its like are presets: a strategy, this argument, its value.
constexpr std::string_view kSwitch = "find_unused_parameters";

bool is_family(std::string_view name, std::string_view family) {
  if (!name.starts_with(family)) return false;
  const std::string_view rest = name.substr(family.size());
  return rest.empty() || rest.front() == '_';
}

}  // namespace

StrategyName read_strategy_name(std::string_view typed, std::span<const std::string> strategies) {
  if (std::find(strategies.begin(), strategies.end(), typed) != strategies.end())
    return {std::string(typed), ""};
  for (const Retired& retired : kRetiredStrategies) {
    if (is_family(typed, retired.beginning)) return {"", std::string(retired.instead)};
  }
  if (typed == "single_device") return {"single", ""};
  for (const std::string_view name : {std::string_view("ddp"), std::string_view("ddp_spawn")}) {
    if (!typed.starts_with(name)) continue;
    const std::string_view rest = typed.substr(name.size());
    for (const char* value : {"true", "false"}) {
      if (rest == "_" + std::string(kSwitch) + "_" + value)
        return {std::string(name), "", {{std::string(kSwitch), value}}};
    }
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
  if (word == "single" || word == "dp" || word == "ddp" || word == "ddp_spawn") return true;
  const StrategyName strategy = read_strategy_name(word);
  return strategy.name != word;
}

}  // namespace cxtrain
