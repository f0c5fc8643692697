#include <algorithm>
#include <map>

#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/doctor/check_support.h"

/// Which cores the ranks may run on.
namespace cxtrain::doctor {
namespace {

/// A rank with less than this much of a core waits for others at every step (three thirds are a core).
constexpr double kWholeCore = 0.999;
/// Ranks of which one has twice the cores of another: the slower one sets the pace.
constexpr int kUnevenFactor = 2;

struct MaskedRank {
  const RankFacts* facts;
  std::vector<int> cores;
  double share = 0;     ///< of the cores of its mask, divided among the ranks that have them
  int whole_share = 1;  ///< as the program counts: at least 1
};

std::vector<MaskedRank> masked(const std::vector<const RankFacts*>& ranks) {
  std::vector<MaskedRank> result;
  std::vector<std::vector<int>> masks;
  for (const RankFacts* rank : ranks) {
    MaskedRank one{rank, parse_ranges(rank->cores)};
    if (one.cores.empty()) continue;
    masks.push_back(one.cores);
    result.push_back(std::move(one));
  }
  const std::vector<double> shares = exact_core_shares(masks);
  const std::vector<int> whole_shares = core_shares(masks);
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i].share = shares[i];
    result[i].whole_share = whole_shares[i];
  }
  return result;
}

int cores_of_machine(const Recording& world, const std::vector<MaskedRank>& ranks) {
  const NodeFacts* node = ranks.empty() ? nullptr : node_of(world, ranks[0].facts->node);
  return node == nullptr ? 0 : node->cores.value_or(0);
}

bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int core) { return std::ranges::binary_search(b, core); });
}

/// Ranks of a node that have to share a core though the machine has one for each.
Findings find_shared_cores(const Recording& world) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    const std::vector<MaskedRank> ranks = masked(ranks_of(world, node.node));
    const int machine = cores_of_machine(world, ranks);
    if (machine > 0 && machine < static_cast<int>(ranks.size())) {  // mpi.oversubscribed
      collector.fine();
      continue;
    }
    for (const MaskedRank& rank : ranks) {
      const bool partly = std::ranges::any_of(ranks, [&](const MaskedRank& other) {
        return other.cores != rank.cores && overlap(other.cores, rank.cores);
      });
      collector.judge(rank.share < kWholeCore || partly,
                      "bound to cores " + rank.facts->cores + " together with others of the node",
                      *rank.facts);
    }
  }
  return collector.result(Severity::warning,
                          "give each rank cores of its own: mpirun --map-by slot:PE=N --bind-to core, srun "
                          "--cpus-per-task=N --cpu-bind=cores; or bind none: mpirun --bind-to none",
                          "which cores the ranks are bound to");
}

Findings find_few_cores(const Recording& world) {
  if (!world.job.data_workers) return not_known("how many data workers a rank has");
  const int needed = 1 + *world.job.data_workers + (uses_gpus(world) ? 1 : 0);
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    for (const MaskedRank& rank : masked(ranks_of(world, node.node))) {
      collector.judge(rank.whole_share < needed,
                      counted(rank.whole_share, "core") + " for " + std::to_string(needed) +
                          " threads that always have work",
                      *rank.facts);
    }
  }
  return collector.result(Severity::warning,
                          "mpirun --bind-to none or --map-by slot:PE=" + std::to_string(needed) +
                              ", srun --cpus-per-task=" + std::to_string(needed) +
                              "; or ask for fewer --data.num_workers",
                          "which cores the ranks are bound to");
}

/// Ranks of one machine that the launcher takes for two: each node's ranks divide its cores among themselves
/// only.
Findings find_machines_shared(const Recording& world) {
  const auto hosts = group_by<std::string>(world.nodes, &NodeFacts::boot_id, &NodeFacts::host);
  if (hosts.empty()) return not_known("which nodes are the same machine");
  const auto ranks = ranks_of_machines(world);
  for (const auto& [machine, names] : hosts) {
    if (names.size() < 2 || !ranks.contains(machine)) continue;
    const std::vector<MaskedRank> all = masked(ranks.at(machine));
    for (const MaskedRank& a : all) {
      for (const MaskedRank& b : all) {
        if (a.facts->node == b.facts->node || !overlap(a.cores, b.cores)) continue;
        return warning("nodes " + hosts_text(names) + " are one machine, and rank " +
                           std::to_string(a.facts->rank) + " and rank " + std::to_string(b.facts->rank) +
                           " may both run on cores " + a.facts->cores,
                       "give each node (container) cores of its own: docker --cpuset-cpus, or taskset; or "
                       "start the ranks as ranks of one node");
      }
    }
  }
  return {};
}

Findings find_uneven_cores(const Recording& world) {
  std::map<int, std::vector<int>> ranks;
  for (const NodeFacts& node : world.nodes) {
    for (const MaskedRank& rank : masked(ranks_of(world, node.node)))
      ranks[rank.whole_share].push_back(rank.facts->rank);
  }
  if (ranks.empty()) return not_known("which cores the ranks are bound to");
  const auto& [least, slow] = *ranks.begin();
  const auto& [most, fast] = *ranks.rbegin();
  if (most < kUnevenFactor * least) return {};
  return warning(counted(least, "core") + " for each of " + ranks_text(slow) + ", " + std::to_string(most) +
                     " for each of " + ranks_text(fast),
                 "ask for an equal number for each rank: mpirun --map-by slot:PE=N, srun --cpus-per-task=N");
}

}  // namespace

std::vector<Check> core_checks() {
  return {
      {"cores.shared", "Ranks of a node share cores by their binding",
       "Ranks that share a core take turns on it, and all ranks wait for them at every step.",
       find_shared_cores},
      {"cores.few", "A rank has fewer cores than busy threads",
       "The loop, its data workers and the threads that feed a GPU take turns on a core, and steps wait.",
       find_few_cores},
      {"cores.one_machine", "Several nodes are one machine and share its cores",
       "The ranks of each node use all cores of the machine, so there are more threads than cores.",
       find_machines_shared, has_several_nodes},
      {"cores.uneven", "Ranks have unequal numbers of cores",
       "Every step takes as long as its slowest rank, so that the other ranks' cores idle.",
       find_uneven_cores},
  };
}

}  // namespace cxtrain::doctor
