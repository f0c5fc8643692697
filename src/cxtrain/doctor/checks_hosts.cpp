#include <algorithm>
#include <cmath>
#include <set>

#include "cxtrain/doctor/check_support.h"

/// The machines: their names, clocks and what else runs on them.
namespace cxtrain::doctor {
namespace {

/// Seconds. Checkpoints and log lines of the nodes come in a wrong order, and `latest` may not be the latest.
constexpr double kClockWarning = 1;
/// Certificates and tickets (Kerberos, munge) are refused, files are from the future.
constexpr double kClockError = 60;
/// Runnable processes for each core before the ranks compute: more leaves less than half of it.
constexpr double kLoadPerCore = 0.5;

Findings find_unlike_clocks(const Recording& world) {
  FindingsCollector collector;
  double largest = 0;
  for (const NodeFacts& node : world.nodes) {
    if (!node.clock_offset) continue;
    const double sure = std::abs(*node.clock_offset) - node.clock_error.value_or(0);
    largest = std::max(largest, sure);
    collector.judge(sure > kClockWarning, number_text(*node.clock_offset) + " s off the first node's clock",
                    node);
  }
  return collector.result(largest > kClockError ? Severity::error : Severity::warning,
                          "have the nodes' clocks set by chrony or NTP", "the nodes' clocks");
}

Findings find_same_names(const Recording& world) {
  std::map<std::string, std::set<std::string>> machines;
  for (const NodeFacts& node : world.nodes) {
    if (!node.host.empty()) machines[node.host].insert(machine_of(world, node.node));
  }
  if (machines.empty()) return not_known("the nodes' names");
  for (const auto& [host, of_name] : machines) {
    if (of_name.size() > 1)
      return warning(std::to_string(of_name.size()) + " machines are called " + host,
                     "give each container its own name: docker run --hostname");
  }
  return {};
}

Findings find_localhost(const Recording& world) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    if (!node.host.empty()) collector.judge(node.host.starts_with("localhost"), "called " + node.host, node);
  }
  return collector.result(Severity::warning,
                          "give the machine a name that other machines find: hostnamectl set-hostname",
                          "the nodes' names");
}

Findings find_unlike_kernels(const Recording& world) {
  const auto hosts = group_by<std::string>(world.nodes, &NodeFacts::kernel, &NodeFacts::host);
  return unlike(Severity::note, "", hosts, "", "the nodes' kernels");
}

Findings find_load(const Recording& world) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    if (!node.load || !node.cores || *node.cores <= 0) continue;
    const double per_core = *node.load / *node.cores;
    collector.judge(per_core > kLoadPerCore,
                    "a load of " + number_text(*node.load) + " on " + std::to_string(*node.cores) + " cores",
                    node);
  }
  return collector.result(Severity::warning,
                          "top lists the processes there; ask for whole nodes (sbatch --exclusive)",
                          "the nodes' load");
}

Findings find_unlike_nodes(const Recording& world) {
  std::map<std::string, std::vector<std::string>> hosts;
  for (const NodeFacts& node : world.nodes) {
    if (node.cores && node.memory_total)
      hosts[std::to_string(*node.cores) + " cores and " +
            std::to_string((*node.memory_total + kGiB / 2) / kGiB) + " GiB"]
          .push_back(node.host);
  }
  return unlike(Severity::note, "", hosts, "sbatch --constraint asks for one kind",
                "the nodes' cores and memory");
}

}  // namespace

std::vector<Check> host_checks() {
  return {
      {"host.clocks", "The nodes' clocks differ",
       "Times in logs, and of checkpoints, are compared across nodes.", find_unlike_clocks,
       has_several_nodes},
      {"host.same_name", "Machines share a name", "Launchers and messages distinguish machines by name.",
       find_same_names, has_several_nodes},
      {"host.localhost", "A node is called localhost", "To every other node that name means itself.",
       find_localhost, has_several_nodes},
      {"host.kernels", "Nodes have unequal kernels", "They may differ in speed and in supported features.",
       find_unlike_kernels},
      {"host.nodes_differ", "Nodes have unequal cores or memory",
       "Every step takes as long as on the slowest node.", find_unlike_nodes, has_several_nodes},
      {"host.load", "Other work runs on a node",
       "Ranks wait for their cores, and all ranks wait for these ranks.", find_load},
  };
}

}  // namespace cxtrain::doctor
