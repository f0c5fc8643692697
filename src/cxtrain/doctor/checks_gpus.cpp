#include <algorithm>
#include <set>

#include "cxtrain/doctor/check_support.h"

/// Which GPUs the ranks are to use.
namespace cxtrain::doctor {
namespace {

const GpuFacts* gpu_of(const NodeFacts& node, const std::string& uuid) {
  if (!node.gpus) return nullptr;
  const auto found = std::ranges::find(*node.gpus, uuid, &GpuFacts::uuid);
  return found == node.gpus->end() ? nullptr : &*found;
}

/// The GPUs of a node that its ranks are to use, and the ranks of each.
std::map<std::string, std::vector<int>> planned_on(const Recording& world, int node) {
  std::map<std::string, std::vector<int>> ranks;
  for (const RankFacts* rank : ranks_of(world, node)) {
    for (const std::string& uuid : rank->planned_gpus) ranks[uuid].push_back(rank->rank);
  }
  return ranks;
}

std::set<std::string> visible_on(const Recording& world, int node) {
  std::set<std::string> uuids;
  for (const RankFacts* rank : ranks_of(world, node)) {
    if (rank->visible_gpus) uuids.insert(rank->visible_gpus->begin(), rank->visible_gpus->end());
  }
  return uuids;
}

Findings find_shared_gpus(const Recording& world) {
  FindingsCollector collector;
  for (const auto& [machine, ranks] : ranks_of_machines(world)) {
    std::map<std::string, std::vector<const RankFacts*>> users;
    for (const RankFacts* rank : ranks) {
      for (const std::string& uuid : rank->planned_gpus) users[uuid].push_back(rank);
    }
    for (const auto& [uuid, of_gpu] : users) {
      if (of_gpu.size() < 2) collector.fine();
      for (const RankFacts* rank : of_gpu) {
        if (of_gpu.size() > 1) collector.wrong("GPU " + uuid + " on " + rank->host, *rank);
      }
    }
  }
  return collector.result(
      Severity::error,
      "start one rank for each GPU (mpirun -np, srun --ntasks-per-node), and give all ranks of "
      "a node the same CUDA_VISIBLE_DEVICES or none",
      "which GPUs the ranks are to use");
}

Findings find_missing_gpus(const Recording& world) {
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    const NodeFacts* node = node_of(world, rank.node);
    if (node == nullptr || !node->gpus) continue;
    if (node->gpus->empty())
      collector.wrong("no GPU on " + node->host, rank);
    else if (rank.planned_gpus.empty())
      collector.wrong("no GPU is left on " + node->host + ", which has " + std::to_string(node->gpus->size()),
                      rank);
    else
      collector.fine();
  }
  return collector.result(
      Severity::error,
      "ask for GPUs (sbatch --gpus-per-node=N), start as many ranks on a node as it has GPUs, "
      "or train on the CPU: --accelerator cpu",
      "which GPUs the nodes have");
}

Findings find_invisible_gpus(const Recording& world) {
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    if (!rank.visible_gpus) continue;
    const NodeFacts* node = node_of(world, rank.node);
    const bool some = node != nullptr && node->gpus && !node->gpus->empty();
    collector.judge(some && rank.visible_gpus->empty(),
                    "CUDA_VISIBLE_DEVICES='" + variable(rank, "CUDA_VISIBLE_DEVICES").value_or("") +
                        "' shows none of the node's GPUs",
                    rank);
  }
  return collector.result(Severity::error, "unset CUDA_VISIBLE_DEVICES, or name GPUs that there are",
                          "which GPUs CUDA shows to the ranks");
}

/// GPUs that nobody is to use, with one rank on the node.
Findings find_idle_gpus(const Recording& world) {
  // The process that is here has yet to start the other ranks.
  if (world.job.planned_world_size.value_or(0) > world_size(world)) return {};
  FindingsCollector alone;
  std::vector<std::string> some_idle;
  for (const NodeFacts& node : world.nodes) {
    const std::set<std::string> visible = visible_on(world, node.node);
    const std::size_t used = planned_on(world, node.node).size();
    if (visible.empty() || used == 0) continue;
    const std::string words = std::to_string(used) + " of " + std::to_string(visible.size()) + " GPUs used";
    if (used == 1 && visible.size() > 1)
      alone.wrong(words, node);
    else
      alone.fine();
    if (used > 1 && used < visible.size()) some_idle.push_back(words + " on " + node.host);
  }
  const std::string fix =
      "start one rank for each GPU: mpirun -np N, srun --ntasks-per-node=N; or --devices -1";
  if (!alone.any() && !some_idle.empty()) return note(some_idle.front(), fix);
  return alone.result(Severity::warning, fix, "which GPUs CUDA shows to the ranks");
}

Findings find_unused_gpus(const Recording& world) {
  if (uses_gpus(world)) return {};
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    collector.judge(node.gpus && !node.gpus->empty()
                        ? std::to_string(node.gpus->size()) + " GPUs, and the run is to train on the CPU"
                        : "",
                    node);
  }
  return collector.result(Severity::note, "--accelerator gpu", "which GPUs the nodes have");
}

/// A UUID names one GPU in the world: twice on a node, or on two machines, it says nothing.
Findings find_duplicate_uuids(const Recording& world) {
  std::map<std::string, std::set<std::string>> places;
  for (const NodeFacts& node : world.nodes) {
    if (!node.gpus) continue;
    for (const GpuFacts& gpu : *node.gpus) {
      if (!gpu.uuid.empty())
        places[gpu.uuid].insert(machine_of(world, node.node) + " " + std::to_string(gpu.index));
    }
  }
  for (const auto& [uuid, where] : places) {
    if (where.size() < 2) continue;
    std::vector<std::string> hosts;
    for (const NodeFacts& node : world.nodes) {
      if (gpu_of(node, uuid) != nullptr) hosts.push_back(node.host);
    }
    return error("GPU " + uuid + " appears " + std::to_string(where.size()) + " times: " + hosts_text(hosts),
                 "restart the driver, and look with nvidia-smi -L; a virtual machine's GPUs may be copies");
  }
  return {};
}

Findings find_divided_gpus(const Recording& world) {
  FindingsCollector collector;
  std::vector<std::string> unused;
  for (const NodeFacts& node : world.nodes) {
    const auto planned = planned_on(world, node.node);
    for (const GpuFacts& gpu : node.gpus.value_or(std::vector<GpuFacts>())) {
      if (gpu.mig != "divided")
        collector.fine();
      else if (planned.contains(gpu.uuid))
        collector.wrong("GPU " + std::to_string(gpu.index) + " is divided into MIG instances", node);
      else
        unused.push_back(node.host);
    }
  }
  if (!collector.any() && !unused.empty())
    return note("GPUs divided into MIG instances, which are used as GPUs of their own, on " +
                hosts_text(unused));
  return collector.result(Severity::error, "name its instances in CUDA_VISIBLE_DEVICES, or nvidia-smi -mig 0",
                          "which GPUs the nodes have");
}

Findings find_no_peer_access(const Recording& world) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    const auto planned = planned_on(world, node.node);
    if (planned.size() < 2) collector.fine();
    if (planned.size() < 2 || !node.gpus || !node.peer_access) continue;
    std::string pair;
    bool all_known = true;
    const std::size_t count = std::min(node.gpus->size(), node.peer_access->size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto& row = (*node.peer_access)[i];
      for (std::size_t j = 0; j < std::min(count, row.size()); ++j) {
        const GpuFacts &from = (*node.gpus)[i], &to = (*node.gpus)[j];
        if (i == j || !planned.contains(from.uuid) || !planned.contains(to.uuid)) continue;
        all_known = all_known && row[j].has_value();
        if (pair.empty() && !row[j].value_or(true))
          pair = "GPUs " + std::to_string(from.index) + " and " + std::to_string(to.index);
      }
    }
    if (!pair.empty())
      collector.wrong(pair + " do not reach each other's memory", node);
    else if (all_known)
      collector.fine();
  }
  return collector.result(
      Severity::warning,
      "see nvidia-smi topo -m; in a virtual machine ask for pass-through without ACS, and switch "
      "ACS off in the firmware",
      "which GPUs reach each other's memory");
}

/// The slowest GPU sets the pace, the smallest the batch.
Findings find_unlike_gpus(const Recording& world) {
  std::map<std::string, std::vector<int>> models;
  for (const RankFacts& rank : world.ranks) {
    const NodeFacts* node = node_of(world, rank.node);
    for (const std::string& uuid : rank.planned_gpus) {
      const GpuFacts* gpu = node == nullptr ? nullptr : gpu_of(*node, uuid);
      if (gpu == nullptr || gpu->name.empty() || !gpu->memory_total_mib) continue;
      models[gpu->name + " with " + std::to_string(*gpu->memory_total_mib) + " MiB"].push_back(rank.rank);
    }
  }
  return unlike(Severity::warning, "", models,
                "ask for one kind: sbatch --constraint or --gpus-per-node=MODEL:N", "the GPUs' models");
}

}  // namespace

std::vector<Check> gpu_checks() {
  return {
      {"gpu.shared", "Two ranks are to use one GPU",
       "NCCL refuses ranks that share a GPU, and its memory has to hold both.", find_shared_gpus, uses_gpus},
      {"gpu.missing", "A rank is to use a GPU and there is none",
       "The plan cannot be carried out, and the job ends at its start.", find_missing_gpus, uses_gpus},
      {"gpu.visible", "CUDA_VISIBLE_DEVICES hides a node's GPUs",
       "CUDA shows a process only the GPUs that the variable names, up to the first wrong name.",
       find_invisible_gpus, uses_gpus},
      {"gpu.idle", "GPUs of a node are not used", "GPUs that the job has been given stay idle.",
       find_idle_gpus, uses_gpus},
      {"gpu.cpu_run", "There are GPUs, and the run is to train on the CPU",
       "Most models train many times faster on a GPU.", find_unused_gpus},
      {"gpu.uuid", "Two GPUs have one UUID", "Ranks get GPUs by UUID, so two ranks may get one GPU.",
       find_duplicate_uuids},
      {"gpu.mig", "A GPU is divided into instances", "CUDA cannot use a divided GPU, only its instances.",
       find_divided_gpus, uses_gpus},
      {"gpu.peer_access", "GPUs of a node do not reach each other's memory",
       "NCCL then copies through the host's memory, at a fraction of the speed.", find_no_peer_access,
       uses_gpus},
      {"gpu.models", "The ranks' GPUs are of unequal models",
       "Every step takes as long as its slowest GPU, and a batch has to fit the smallest.", find_unlike_gpus,
       uses_gpus},
  };
}

}  // namespace cxtrain::doctor
