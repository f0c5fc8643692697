#include "cxtrain/base/text.h"
#include "cxtrain/config/resolve_steps.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "cxtrain/config/devices.h"

namespace cxtrain {
namespace {

/// Whether the node shows the devices that were picked on the first node; says so when not.
bool check_node(const std::vector<int>& indices, const Hardware& hardware, int node, std::size_t visible,
                const DeviceChoice& devices, Plan& plan) {
  const int highest = indices.empty() ? -1 : *std::ranges::max_element(indices);
  if (static_cast<int>(visible) > highest && visible > 0) return true;
  plan.errors.push_back({devices.option,
                         "GPU " + std::to_string(std::max(highest, 0)) +
                             " was asked for on every node, but " + describe_gpus(hardware, node),
                         "use nodes with equal GPUs", MessageCode::no_device});
  return false;
}

void check_compute_mode(const Gpu& gpu, int ranks, const std::string& option, Plan& plan) {
  const std::string name = "GPU " + std::to_string(gpu.index) + " (" + gpu.name + ")";
  if (gpu.compute_mode == "prohibited") {
    plan.errors.push_back({option, name + " is in compute mode `prohibited`",
                           "choose another, or `nvidia-smi -c DEFAULT`", MessageCode::no_device});
  } else if (gpu.compute_mode.starts_with("exclusive") && (ranks > 1 || gpu.processes.value_or(0) > 0)) {
    plan.warnings.push_back({option, name + " is in exclusive compute mode, but would be shared",
                             "give each rank its own GPU, or `nvidia-smi -c DEFAULT`"});
  }
}

void warn_of_sharing(std::size_t ranks, const std::vector<Gpu>& gpus, const std::string& hostname,
                     const DeviceChoice& devices, Plan& plan) {
  if (devices.one_each) {
    plan.warnings.push_back({devices.option,
                             "each of the " + std::to_string(ranks) + " ranks on node " + hostname +
                                 " sees one GPU; it is their own where " + plan.launcher +
                                 " gave each another, else they share it",
                             "compare the ranks' UUIDs"});
    return;
  }
  plan.warnings.push_back({devices.option,
                           std::to_string(ranks) + " ranks share " + counted(gpus.size(), "GPU") +
                               " on node " + hostname + "; their gradients take the way through host memory",
                           "start one rank per GPU"});
}

/// Says it of the first node where nothing is known of a GPU that counts as free.
void warn_of_unknown_use(const std::vector<int>& indices, const std::vector<Gpu>& gpus,
                         const std::string& hostname, Plan& plan) {
  const std::string option = "auto_select_gpus";
  const auto is_unknown = [&](int index) {
    const Gpu& gpu = gpus[static_cast<std::size_t>(index)];
    return !gpu.processes && !gpu.memory_used_mib;
  };
  if (std::ranges::none_of(indices, is_unknown) ||
      std::ranges::any_of(plan.warnings, [&](const Problem& known) { return known.option == option; }))
    return;
  plan.warnings.push_back({option,
                           "whether GPUs are free is not known on node " + hostname + ": they count as free",
                           "look at nvidia-smi, and name the GPUs, as --devices 2,3"});
}

/// The indices that the ranks of a node use, `devices_per_rank` after another; fewer than they need where
/// they take turns; nothing after an error.
std::optional<std::vector<int>> indices_of_node(std::size_t ranks, int node, const std::vector<Gpu>& gpus,
                                                const Hardware& hardware, const DeviceChoice& devices,
                                                Plan& plan) {
  const std::size_t each = static_cast<std::size_t>(plan.devices_per_rank);
  if (devices.only_free && !devices.one_each) {
    // Asked on each node again: the first node's indices mean nothing on another.
    const std::size_t wanted = devices.indices.empty() ? ranks * each : devices.indices.size();
    const auto open = pick_free_gpus(gpus, static_cast<int>(wanted), hardware.node(node).hostname);
    if (!open) {
      plan.errors.push_back(
          {devices.option, open.error, "ask for fewer, or drop --auto_select_gpus", MessageCode::no_device});
    } else {
      warn_of_unknown_use(*open, gpus, hardware.node(node).hostname, plan);
    }
    return open.value;
  }
  if (!check_node(devices.indices, hardware, node, gpus.size(), devices, plan)) return std::nullopt;
  if (!devices.indices.empty()) return devices.indices;

  const std::size_t needed =
      plan.traits.takes_all_devices() && devices.automatic ? gpus.size() : ranks * each;
  std::vector<int> indices(std::min(needed, gpus.size()));
  std::iota(indices.begin(), indices.end(), 0);
  if (needed > gpus.size() && each > 1) {
    plan.errors.push_back({"devices_per_rank",
                           counted(ranks, "rank") + " with " + counted(each, "GPU") + " each need " +
                               std::to_string(needed) + ", but " + describe_gpus(hardware, node),
                           "start fewer ranks, or with a smaller --devices_per_rank",
                           MessageCode::no_device});
    return std::nullopt;
  }
  if (needed > gpus.size()) warn_of_sharing(ranks, gpus, hardware.node(node).hostname, devices, plan);
  return indices;
}

void place_on_gpus(std::vector<RankPlan*>& ranks, const Hardware& hardware, const DeviceChoice& devices,
                   Plan& plan) {
  const int node = ranks.front()->node;
  const std::vector<Gpu> gpus = visible_gpus(hardware, node).gpus;
  const auto indices = indices_of_node(ranks.size(), node, gpus, hardware, devices, plan);
  if (!indices) return;
  const std::size_t each =
      plan.traits.takes_all_devices() ? indices->size() : static_cast<std::size_t>(plan.devices_per_rank);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankPlan& rank = *ranks[i];
    for (std::size_t part = 0; part < each; ++part) {
      const int index = (*indices)[(i * each + part) % indices->size()];
      rank.devices.push_back("cuda:" + std::to_string(index));
      const Gpu& gpu = gpus[static_cast<std::size_t>(index)];
      rank.gpus.push_back(gpu.index);
      rank.uuids.push_back(gpu.uuid);
    }
    rank.device = rank.devices.front();
    rank.gpu = rank.gpus.front();
    rank.uuid = rank.uuids.front();
  }
  const std::size_t sharing = (ranks.size() * each + indices->size() - 1) / indices->size();
  for (const int index : *indices) {
    check_compute_mode(gpus[static_cast<std::size_t>(index)], static_cast<int>(sharing), devices.option,
                       plan);
  }
  if (node == 0) plan.devices = *indices;
}

}  // namespace

void place_ranks(const std::vector<int>& rank_nodes, const Hardware& hardware, const DeviceChoice& devices,
                 Plan& plan) {
  std::vector<std::vector<RankPlan*>> nodes(static_cast<std::size_t>(plan.num_nodes));
  plan.ranks.resize(rank_nodes.size());
  for (std::size_t i = 0; i < rank_nodes.size(); ++i) {
    RankPlan& rank = plan.ranks[i];
    std::vector<RankPlan*>& ranks = nodes[static_cast<std::size_t>(rank_nodes[i])];
    rank.rank = static_cast<int>(i);
    rank.node = rank_nodes[i];
    rank.local_rank = static_cast<int>(ranks.size());
    ranks.push_back(&rank);
    if (!devices.gpu) {
      rank.devices.assign(static_cast<std::size_t>(std::max(plan.devices_per_rank, plan.replicas)),
                          rank.device);
    }
  }
  if (!devices.gpu) return;
  for (std::vector<RankPlan*>& ranks : nodes) {
    if (!ranks.empty()) place_on_gpus(ranks, hardware, devices, plan);
  }
  const auto unplaced = [](const RankPlan& rank) { return rank.devices.empty(); };
  if (std::ranges::any_of(plan.ranks, unplaced)) plan.ranks.clear();  // errors tell why
  if (plan.traits.takes_all_devices() && !plan.devices.empty())
    plan.replicas = static_cast<int>(plan.devices.size());
}

}  // namespace cxtrain
