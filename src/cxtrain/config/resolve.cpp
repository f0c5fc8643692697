#include "cxtrain/config/devices.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/resolve_steps.h"
#include "cxtrain/config/strategy_choice.h"

namespace cxtrain {
namespace {

/// Lightning 2.x: benchmark is what was asked, else off. (1.6.0 to 1.6.3 turned it on where deterministic was
/// off; 1.5 and all since 1.6.4 do not.) Both at once are the user's choice, with a warning.
void choose_reproducibility(const TrainerOptions& trainer, Plan& plan) {
  plan.deterministic = trainer.deterministic.on;
  plan.deterministic_warn_only = trainer.deterministic.warn_only;
  plan.benchmark = trainer.benchmark.value_or(false);
  plan.float32_matmul_precision = trainer.float32_matmul_precision;
  plan.channels_last = trainer.channels_last;
  plan.sync_batchnorm = trainer.sync_batchnorm;
  plan.profiler = trainer.profiler;
  plan.accumulate_grad_batches = trainer.accumulate_grad_batches;
  if (plan.benchmark && plan.deterministic) {
    plan.warnings.push_back(
        {"benchmark",
         "benchmark=true chooses kernels by their speed, which may differ from run to run "
         "in spite of deterministic=true",
         "drop --benchmark"});
  }
}

void choose_recomputation(const TrainerOptions& trainer, Plan& plan) {
  plan.recompute_blocks = trainer.recompute_blocks;
  if (!plan.recompute_blocks) return;
  const auto refuse = [&](const char* why, const char* cure) {
    plan.errors.push_back({"recompute_blocks", why, cure, MessageCode::conflicting_options});
  };
  if (plan.sync_batchnorm)
    refuse("ranks would exchange the statistics of a batch norm again in backward, in any order",
           "leave one of the options out");
  if (plan.replicas > 1)
    refuse("replicas draw random numbers from one generator, which cannot repeat the numbers of one of them",
           "use --strategy ddp");
}

void choose_memory_log(const TrainerOptions& trainer, Plan& plan) {
  plan.log_gpu_memory = trainer.log_gpu_memory;
  if (!plan.log_gpu_memory) return;
  const std::string typed = "log_gpu_memory=" + std::string(word_of(*plan.log_gpu_memory));
  if (plan.accelerator != "gpu") {
    plan.warnings.push_back({"log_gpu_memory", typed + " logs nothing: the run uses no GPU",
                             "use --callbacks.device_stats true for the CPU's load and memory"});
  } else if (!trainer.logger || trainer.barebones) {
    plan.warnings.push_back({"log_gpu_memory", typed + " logs nothing: the run has no logger", "drop it"});
  }
}

void check_visible(const Hardware& hardware, Plan& plan) {
  const auto visible = visible_gpus(hardware, 0);
  if (visible.ignored.empty()) return;
  plan.warnings.push_back({"CUDA_VISIBLE_DEVICES",
                           "the entry '" + visible.ignored +
                               "' names no further GPU of this machine: it and what follows are "
                               "ignored, as CUDA does",
                           ""});
}

/// A strategy that no plugin has. The plan names it in today's words.
void check_strategy(const KnownStrategies& strategies, Plan& plan) {
  if (strategies.contains(plan.strategy)) return;
  plan.errors.push_back({"strategy", "there is no strategy '" + plan.strategy + "'",
                         did_you_mean_or_known(plan.strategy, names_of(strategies)),
                         MessageCode::unknown_name});
}

/// Sets the errors of a plan without errors to what the strategy and its comm hook refuse.
void check_by_components(Plan& plan) {
  std::vector<Problem> problems;
  const auto ask = [&](std::optional<Problem> (*refuse)(const Plan&)) {
    if (refuse == nullptr) return;
    if (std::optional<Problem> problem = refuse(plan)) problems.push_back(std::move(*problem));
  };
  ask(plan.traits.refuse);
  if (plan.comm_hook) ask(plan.comm_hook->traits.refuse);
  plan.errors = std::move(problems);
}

}  // namespace

Plan resolve(const Options& options, const Hardware& hardware, const WorldFacts& launched,
             const KnownStrategies& strategies) {
  Plan plan;
  check_options(options, plan.errors);
  check_visible(hardware, plan);
  const std::size_t errors_of_options = plan.errors.size();
  const TrainerOptions trainer =
      translate_deprecated_options(options.trainer, hardware, names_of(strategies), plan);
  const std::size_t errors_before = plan.errors.size();
  const DeviceChoice devices =
      choose_devices(trainer, traits_of(strategies, trainer.strategy), hardware, launched, plan);
  const bool devices_known = plan.errors.size() == errors_before;
  const std::vector<int> rank_nodes = choose_launch(trainer, strategies, devices, hardware, launched, plan);
  // A strategy that nobody named may be the wrong one after an error about devices or ranks.
  if (trainer.strategy || plan.errors.size() == errors_of_options) {
    plan.strategy_arguments =
        strategy_arguments(plan.strategy, strategies, options, plan.errors, plan.warnings);
    plan.comm_hook = choose_comm_hook(plan.strategy, strategies, plan.strategy_arguments, plan.errors);
  }
  check_strategy(strategies, plan);
  choose_precision(trainer, plan);
  choose_reproducibility(trainer, plan);
  choose_memory_log(trainer, plan);
  // Ranks without known devices would only add errors about devices that were refused already.
  if (devices_known) place_ranks(rank_nodes, hardware, devices, plan);
  check_cuda(hardware, plan);
  choose_recomputation(trainer, plan);
  if (plan.errors.empty()) check_by_components(plan);
  return plan;
}

}  // namespace cxtrain
