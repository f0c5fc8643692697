#pragma once

#include <optional>
#include <vector>

#include "cxtrain/config/device_list.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

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

/// Reads accelerator, devices, gpus and auto_select_gpus (in Lightning 2.x's words, see old_spellings.h)
/// against the GPUs that the first node shows. `strategy`: the traits of the one that was asked for. Problems
/// go to plan.errors; sets plan.accelerator.
DeviceChoice choose_devices(const TrainerOptions& trainer, const StrategyTraits& strategy,
                            const Hardware& hardware, const WorldFacts& launched, Plan& plan);

/// "node n1 has 4 GPUs, CUDA_VISIBLE_DEVICES=7 shows 0 of them": for messages.
std::string describe_gpus(const Hardware& hardware, int node);

}  // namespace cxtrain
