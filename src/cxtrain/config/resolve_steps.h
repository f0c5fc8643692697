#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"

/// The steps of `resolve()`, in their order. Each is pure, stands in a file of its name, and appends what it
/// refuses to the plan's errors.
namespace cxtrain {

/// Values that no hardware could make sense of: numbers out of their range, contradictions between two
/// options. Appends one problem for each. Pure.
void check_options(const Options& options, std::vector<Problem>& problems);

/// The options in Lightning 2.x's words: accelerator=ddp becomes strategy=ddp, num_processes=n becomes n
/// devices of the CPU, gpus win over devices, a preset such as ddp_find_unused_parameters_true becomes ddp
/// (its arguments: strategy_choice.h). What a user should know about it goes to plan.warnings, what has no
/// meaning here to plan.errors. `strategies`: see read_strategy_name. Pure.
TrainerOptions translate_deprecated_options(TrainerOptions trainer, const Hardware& hardware,
                                            std::span<const std::string> strategies, Plan& plan);

/// CPU or GPU, and which of them are asked for on each node.
struct DeviceChoice {
  bool gpu = false;
  const char* option = "devices";  ///< the option that asked: "devices", "gpus" or "num_processes"
  /// How many per node; absent where the user left it open (nothing asked, or `auto`).
  std::optional<int> count;
  /// The indices asked for, on GPUs with a count.
  std::vector<int> indices;
  bool automatic = false;  ///< `auto` was asked for: all there are, or as many as ranks were started
  bool only_free = false;  ///< auto_select_gpus: on each node those that nobody uses
  bool one_each = false;   ///< several ranks on a node, each of which sees one GPU: perhaps its own
};

/// Reads accelerator, devices, gpus and auto_select_gpus (in Lightning 2.x's words)
/// against the GPUs that the first node shows. `strategy`: the traits of the one that was asked for. Problems
/// go to plan.errors; sets plan.accelerator.
DeviceChoice choose_devices(const TrainerOptions& trainer, const StrategyTraits& strategy,
                            const Hardware& hardware, const WorldFacts& launched, Plan& plan);

/// "node n1 has 4 GPUs, CUDA_VISIBLE_DEVICES=7 shows 0 of them": for messages.
std::string describe_gpus(const Hardware& hardware, int node);

/// The launch matrix: strategy, launcher, world size, nodes, devices per rank and replicas, from what
/// was asked, what the strategies are and how the process was started. Sets these fields of the plan;
/// disagreements go to plan.errors, with both numbers and the right command line. Returns the node of each
/// rank.
std::vector<int> choose_launch(const TrainerOptions& asked, const KnownStrategies& strategies,
                               const DeviceChoice& devices, const Hardware& hardware,
                               const WorldFacts& launched, Plan& plan);

/// Decides plan.precision and plan.amp_level from precision, amp_level, amp_backend and use_amp; needs
/// plan.accelerator and plan.traits. apex' levels, in Lightning's terms of today:
///
///     O0  32-true      O1  16-mixed (autocast)
///     O3  16-true      O2  16-mixed, with half weights except batch norm and float32 master weights
///
/// A level counts where precision is 16 or not given, as in Lightning 1.5; elsewhere a warning says that it
/// does not. A level that was asked for by name keeps float16 on the CPU, where plain `16` becomes
/// bf16-mixed.
void choose_precision(const TrainerOptions& trainer, Plan& plan);

/// Refuses a driver that is too old for this build's CUDA, and GPUs among the planned ones that its LibTorch
/// cannot use. What is not known is not refused. After `place_ranks`.
void check_cuda(const Hardware& hardware, Plan& plan);

/// Fills plan.ranks, plan.devices and, on GPUs, plan.replicas: each rank of a node gets its share of the
/// devices that were asked for, else of the first ones that the node shows, else they take turns on too few.
/// Needs what `choose_launch` decided; `rank_nodes` is its answer.
void place_ranks(const std::vector<int>& rank_nodes, const Hardware& hardware, const DeviceChoice& devices,
                 Plan& plan);

}  // namespace cxtrain
