#include "cxtrain/cli/plan_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/readable_bytes.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/optimization.h"

namespace cxtrain {
namespace {

/// The memory that a rank can have: its GPU's, or its part of this machine's. Of another machine's CPUs the
/// memory is not known.
std::int64_t memory_for(const RankPlan& rank, int ranks_on_node, const Hardware& hardware,
                        const Options& options) {
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  if (!rank.gpu) return options.hardware_file.empty() ? total_memory_bytes() / ranks_on_node : kUnknown;
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  for (const Gpu& gpu : hardware.node(rank.node).gpus) {
    if (gpu.index == rank.gpu && gpu.memory_total_mib > 0) return gpu.memory_total_mib * kMebibyte;
  }
  return kUnknown;
}

void check_memory(Plan& plan, const Hardware& hardware, const Options& options) {
  const std::vector<int> on_nodes = ranks_on_nodes(plan);
  for (std::size_t i = 0; i < plan.memory.size(); ++i) {
    const std::int64_t have = memory_for(plan.ranks[i], on_nodes[i], hardware, options);
    const std::int64_t needed = plan.memory[i].total();
    if (needed <= have) continue;
    plan.errors.push_back(
        {"trainer.strategy",
         "parameters, gradients and the optimizer's state take " + readable_bytes(needed) + " on rank " +
             std::to_string(i) + ", which has " + readable_bytes(have),
         "divide them among more ranks with --strategy zero, or the layers with --strategy pipeline "
         "(docs/larger_models.md)",
         MessageCode::out_of_memory});
    return;
  }
}

}  // namespace

void fill_in_memory(Plan& plan, const Hardware& hardware, const Options& options, Module& model) {
  if (plan.traits.memory == nullptr) return;
  try {
    const PrecisionPolicy precision = precision_policy(plan.precision, plan.amp_level);
    const std::vector<at::Device> nowhere(static_cast<std::size_t>(plan.devices_per_rank), at::kMeta);
    trainable(model).place(nowhere, precision);
    const std::vector<NamedOptimizer> setups = optimizer_setups(model, options);
    const std::vector<OptimizerTarget> targets = optimizer_targets(model, setups);
    plan.memory = plan.traits.memory(plan, {trainable(model), targets, precision});
    check_memory(plan, hardware, options);
  } catch (const ConfigError& error) {
    plan.errors.insert(plan.errors.end(), error.problems().begin(), error.problems().end());
  }
}

}  // namespace cxtrain
