#pragma once

#include <string>
#include <vector>

#include "cxtrain/config/plan.h"
#include "support/error_text.h"
#include "support/own_strategies.h"

/// Machines and worlds that need not exist.
namespace cxtrain::testing {

using List = std::vector<int>;
using Names = std::vector<std::string>;

inline Hardware machine(int gpus, int cores = 32) {
  Hardware hardware;
  hardware.nodes.push_back({"n1", cores, {}});
  for (int i = 0; i < gpus; ++i) {
    Gpu gpu;
    gpu.index = i;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.name = "NVIDIA H100";
    hardware.nodes[0].gpus.push_back(gpu);
  }
  return hardware;
}

/// As if under mpirun: so many ranks on each of these nodes.
inline WorldFacts under_mpirun(std::vector<int> ranks_per_node) {
  WorldFacts facts;
  facts.launched_by = LaunchedBy::mpirun;
  facts.size = 0;
  facts.num_nodes = static_cast<int>(ranks_per_node.size());
  for (int node = 0; node < facts.num_nodes; ++node) {
    const int ranks = ranks_per_node[static_cast<std::size_t>(node)];
    facts.size += ranks;
    facts.max_local_size = std::max(facts.max_local_size, ranks);
    for (int i = 0; i < ranks; ++i) facts.rank_nodes.push_back(node);
  }
  facts.local_size = ranks_per_node[0];
  return facts;
}

/// With the strategies that come with the program.
inline Plan resolve(const Options& options, const Hardware& hardware, const WorldFacts& launched) {
  return cxtrain::resolve(options, hardware, launched, own_strategies());
}

inline std::vector<std::string> devices_of(const Plan& plan) {
  std::vector<std::string> devices;
  for (const RankPlan& rank : plan.ranks) devices.push_back(rank.device);
  return devices;
}

/// A line for each problem, as the program prints it.
inline std::string all(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) text += with_code(to_line(problem), problem.code) + "\n";
  return text;
}

}  // namespace cxtrain::testing
