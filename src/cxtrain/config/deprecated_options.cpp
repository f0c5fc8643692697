#include "cxtrain/config/resolve_steps.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cxtrain/config/devices.h"
#include "cxtrain/config/strategy_choice.h"

namespace cxtrain {
namespace {

constexpr std::array<std::string_view, 4> kNoSuchDevices{"tpu", "ipu", "hpu", "mps"};

void translate_accelerator(TrainerOptions& trainer, Plan& plan) {
  const std::string typed = trainer.accelerator;
  if (std::ranges::find(kNoSuchDevices, typed) != kNoSuchDevices.end()) {
    plan.errors.push_back({"accelerator", "there is no support for accelerator=" + typed,
                           "use --accelerator gpu, cpu or auto", MessageCode::unsupported_option});
    trainer.accelerator = "auto";
    return;
  }
  if (typed != "ddp_cpu" && !is_strategy_of_lightning(typed)) return;
  const std::string strategy = typed == "ddp_cpu" ? "ddp" : typed;
  trainer.accelerator = typed == "ddp_cpu" ? "cpu" : "auto";
  if (trainer.strategy && *trainer.strategy != strategy) {
    plan.errors.push_back(
        {"accelerator",
         "accelerator=" + typed + " names a strategy, and strategy=" + *trainer.strategy + " names another",
         "drop --accelerator " + typed, MessageCode::conflicting_options});
    return;
  }
  trainer.strategy = strategy;
  plan.warnings.push_back(
      {"accelerator", "accelerator=" + typed + " names a strategy, as before Lightning 1.5",
       std::string("write ") + (typed == "ddp_cpu" ? "--accelerator cpu " : "") + "--strategy " + strategy});
}

/// num_processes counts processes on the CPU; 1 is what Lightning 1.5 has where nothing is asked.
void translate_num_processes(TrainerOptions& trainer, const Hardware& hardware, Plan& plan) {
  if (!trainer.num_processes || *trainer.num_processes < 2) return trainer.num_processes.reset();
  const std::string typed = "num_processes=" + std::to_string(*trainer.num_processes);
  const bool gpus_asked = trainer.gpus && *trainer.gpus != "0";
  if (gpus_asked || trainer.accelerator == "gpu" || trainer.accelerator == "cuda") {
    plan.warnings.push_back(
        {"num_processes", typed + " counts processes on the CPU and has no effect on GPUs", "use --devices"});
    return trainer.num_processes.reset();
  }
  if (trainer.devices && *trainer.devices != Devices(*trainer.num_processes)) {
    plan.errors.push_back({"num_processes",
                           typed + " and devices=" + trainer.devices->text() + " were both given",
                           "they mean the same on the CPU; keep one", MessageCode::conflicting_options});
    return trainer.num_processes.reset();
  }
  if (trainer.accelerator == "auto" && !visible_gpus(hardware, 0).gpus.empty()) {
    plan.warnings.push_back({"num_processes", typed + " asks for processes on the CPU: the GPUs stay unused",
                             "use --accelerator gpu --devices " + std::to_string(*trainer.num_processes)});
  }
  trainer.accelerator = "cpu";
  trainer.devices = *trainer.num_processes;
  trainer.gpus.reset();
}

void translate_gpus(TrainerOptions& trainer, Plan& plan) {
  if (!trainer.gpus || !trainer.devices) return;
  plan.warnings.push_back({"devices",
                           "gpus=" + *trainer.gpus + " and devices=" + trainer.devices->text() +
                               " were both given: gpus counts, as in Lightning",
                           "keep one"});
  trainer.devices.reset();
}

void translate_strategy(TrainerOptions& trainer, std::span<const std::string> strategies, Plan& plan) {
  if (trainer.strategy == "auto") trainer.strategy.reset();  // Lightning's word for "not asked"
  if (!trainer.strategy) return;
  const StrategyName strategy = read_strategy_name(*trainer.strategy, strategies);
  if (strategy.name.empty()) {
    plan.errors.push_back({"strategy", "there is no strategy '" + *trainer.strategy + "'", strategy.instead,
                           MessageCode::unsupported_option});
    return trainer.strategy.reset();
  }
  trainer.strategy = strategy.name;
}

}  // namespace

TrainerOptions translate_deprecated_options(TrainerOptions trainer, const Hardware& hardware,
                                            std::span<const std::string> strategies, Plan& plan) {
  translate_accelerator(trainer, plan);
  translate_num_processes(trainer, hardware, plan);
  translate_gpus(trainer, plan);
  translate_strategy(trainer, strategies, plan);
  return trainer;
}

}  // namespace cxtrain
