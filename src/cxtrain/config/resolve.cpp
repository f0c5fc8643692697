#include <algorithm>
#include <numeric>

#include "cxtrain/config/check_options.h"
#include "cxtrain/config/device_choice.h"
#include "cxtrain/config/launch.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/precision.h"
#include "cxtrain/config/visible_gpus.h"

namespace cxtrain {
namespace {

void choose_precision(const std::string& typed, Plan& plan) {
  const auto precision = parse_precision(typed);
  if (!precision) {
    plan.errors.push_back({"precision", precision.error, ""});
    return;
  }
  plan.precision = precision.value->name;
  // Lightning's rule: autocast on a CPU has no float16; who spells out "16-mixed" gets it all the same.
  if (plan.accelerator == "cpu" && plan.precision == "16-mixed" && precision.value->shorthand) {
    plan.precision = "bf16-mixed";
    plan.warnings.push_back({"precision", "precision=16 is not for the CPU: bf16-mixed is used instead",
                             "use --precision bf16 to say so"});
  }
}

void choose_switches(const TrainerOptions& trainer, Plan& plan) {
  plan.deterministic = trainer.deterministic;
  plan.benchmark = trainer.benchmark.value_or(false);
  plan.sync_batchnorm = trainer.sync_batchnorm;
  plan.accumulate_grad_batches = trainer.accumulate_grad_batches;
  if (plan.benchmark && plan.deterministic) {
    plan.warnings.push_back(
        {"benchmark",
         "benchmark=true chooses kernels by their speed, which may differ from run to run "
         "in spite of deterministic=true",
         "drop --benchmark"});
  }
}

/// Whether the node shows the devices that were picked on the first node; says so when not.
bool check_node(const std::vector<int>& indices, const Hardware& hardware, int node, int visible,
                const DeviceChoice& devices, Plan& plan) {
  const int highest = indices.empty() ? -1 : *std::max_element(indices.begin(), indices.end());
  if (visible > highest && visible > 0) return true;
  plan.errors.push_back({devices.option,
                         "GPU " + std::to_string(std::max(highest, 0)) +
                             " was asked for on every node, but " + describe_gpus(hardware, node),
                         "use nodes with equal GPUs"});
  return false;
}

void check_compute_mode(const Gpu& gpu, int ranks, const std::string& option, Plan& plan) {
  const std::string name = "GPU " + std::to_string(gpu.index) + " (" + gpu.name + ")";
  if (gpu.compute_mode == "prohibited") {
    plan.errors.push_back(
        {option, name + " is in compute mode `prohibited`", "choose another, or `nvidia-smi -c DEFAULT`"});
  } else if (gpu.compute_mode.starts_with("exclusive") && (ranks > 1 || gpu.processes > 0)) {
    plan.warnings.push_back({option, name + " is in exclusive compute mode, but would be shared",
                             "give each rank its own GPU, or `nvidia-smi -c DEFAULT`"});
  }
}

/// Gives the ranks of one node their GPUs: the ones asked for, else the first ones, in turns when there are
/// too few.
void place_on_gpus(std::vector<RankPlan*>& ranks, const Hardware& hardware, const DeviceChoice& devices,
                   Plan& plan) {
  const int node = ranks.front()->node;
  const std::vector<Gpu> gpus = visible_gpus(hardware, node).gpus;
  const int visible = static_cast<int>(gpus.size());
  std::vector<int> indices = devices.indices;
  if (!check_node(indices, hardware, node, visible, devices, plan)) return;
  if (indices.empty()) {
    const int needed = plan.strategy == "dp" && devices.automatic ? visible : static_cast<int>(ranks.size());
    indices.resize(static_cast<std::size_t>(std::min(needed, visible)));
    std::iota(indices.begin(), indices.end(), 0);
    if (needed > visible) {
      plan.warnings.push_back({devices.option,
                               std::to_string(needed) + " ranks share " + std::to_string(visible) +
                                   (visible == 1 ? " GPU" : " GPUs") + " on node " +
                                   hardware.node(node).hostname +
                                   "; their gradients take the way through host memory",
                               "start one rank per GPU"});
    }
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int index = indices[i % indices.size()];
    const Gpu& gpu = gpus[static_cast<std::size_t>(index)];
    ranks[i]->device = "cuda:" + std::to_string(index);
    ranks[i]->gpu = gpu.index;
    ranks[i]->uuid = gpu.uuid;
  }
  const std::size_t sharing = (ranks.size() + indices.size() - 1) / indices.size();
  for (const int index : indices) {
    check_compute_mode(gpus[static_cast<std::size_t>(index)], static_cast<int>(sharing), devices.option,
                       plan);
  }
  if (node == 0) plan.devices = indices;
}

void place_ranks(const std::vector<int>& rank_nodes, const Hardware& hardware, const DeviceChoice& devices,
                 Plan& plan) {
  std::vector<int> ranks_of_node(static_cast<std::size_t>(plan.num_nodes));
  for (std::size_t rank = 0; rank < rank_nodes.size(); ++rank) {
    const int node = rank_nodes[rank];
    plan.ranks.push_back(
        {static_cast<int>(rank), node, ranks_of_node[static_cast<std::size_t>(node)]++, "cpu", -1, ""});
  }
  if (!devices.gpu) return;
  for (int node = 0; node < plan.num_nodes; ++node) {
    std::vector<RankPlan*> ranks;
    for (RankPlan& rank : plan.ranks) {
      if (rank.node == node) ranks.push_back(&rank);
    }
    if (!ranks.empty()) place_on_gpus(ranks, hardware, devices, plan);
  }
}

}  // namespace

Plan resolve(const Options& options, const Hardware& hardware, const WorldFacts& launched) {
  Plan plan;
  check_options(options, plan.errors);
  if (const auto visible = visible_gpus(hardware, 0); !visible.ignored.empty()) {
    plan.warnings.push_back({"CUDA_VISIBLE_DEVICES",
                             "the entry '" + visible.ignored +
                                 "' names no further GPU of this machine: it and what follows are "
                                 "ignored, as CUDA does",
                             ""});
  }
  const std::size_t errors_before = plan.errors.size();
  const DeviceChoice devices = choose_devices(options.trainer, hardware, plan);
  const bool devices_known = plan.errors.size() == errors_before;
  choose_precision(options.trainer.precision, plan);
  choose_switches(options.trainer, plan);
  const std::vector<int> rank_nodes = choose_launch(options.trainer, devices, hardware, launched, plan);
  // Ranks without known devices would only add errors about devices that were refused already.
  if (devices_known) place_ranks(rank_nodes, hardware, devices, plan);
  return plan;
}

}  // namespace cxtrain
