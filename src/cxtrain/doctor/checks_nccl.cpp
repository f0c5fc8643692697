#include <algorithm>
#include <set>

#include "cxtrain/base/text.h"
#include "cxtrain/doctor/check_support.h"

/// How NCCL connects the ranks.
namespace cxtrain::doctor {
namespace {

/// Mbit/s. Slower Ethernet than this moves the gradients of 100 million parameters in more than a second.
constexpr std::int64_t kFastEthernet = 10'000;

bool uses_nccl(const Recording& world) { return uses_gpus(world) && has_several_ranks(world); }

bool uses_nccl_between_nodes(const Recording& world) { return uses_nccl(world) && has_several_nodes(world); }

Findings find_nccl_versions(const Recording& world) {
  const auto version = [](const RankFacts& rank) {
    return rank.nccl && !rank.nccl->empty() ? rank.nccl->front().version : std::string();
  };
  const auto ranks = group_by<int>(world.ranks, version, &RankFacts::rank);
  return unlike(Severity::error, "NCCL ", ranks,
                "install one NCCL on all nodes, or make LD_LIBRARY_PATH alike", "the ranks' NCCL");
}

Findings find_nccl_copies(const Recording& world) {
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    if (!rank.nccl) continue;
    std::set<std::string> versions;
    for (const NcclFacts& nccl : *rank.nccl) versions.insert(nccl.version);
    const auto copy = [](const NcclFacts& nccl) { return nccl.path + " (" + nccl.version + ")"; };
    collector.judge(versions.size() > 1, joined(*rank.nccl, ", ", copy), rank);
  }
  return collector.result(Severity::warning, "take the other copy out of LD_LIBRARY_PATH and LD_PRELOAD",
                          "which copies of NCCL the ranks find");
}

/// The interfaces that $NCCL_SOCKET_IFNAME leaves: prefixes, exact names after '=', others after '^'.
std::vector<std::string> chosen_interfaces(std::string_view setting,
                                           const std::vector<InterfaceFacts>& interfaces) {
  const bool except = setting.starts_with('^');
  if (except) setting.remove_prefix(1);
  const bool exact = setting.starts_with('=');
  if (exact) setting.remove_prefix(1);
  const std::vector<std::string> names = split_words(setting);
  std::vector<std::string> chosen;
  for (const InterfaceFacts& interface : interfaces) {
    const bool named = std::ranges::any_of(names, [&](const std::string& name) {
      return exact ? interface.name == name : interface.name.starts_with(name);
    });
    if (named != except && interface.up.value_or(true)) chosen.push_back(interface.name);
  }
  return chosen;
}

/// What is wrong with a setting of $NCCL_SOCKET_IFNAME on a node; empty: nothing.
std::string wrong_interface(const std::string& setting, const NodeFacts& node) {
  const std::string name = "NCCL_SOCKET_IFNAME=" + setting;
  const std::vector<std::string> chosen = chosen_interfaces(setting, *node.interfaces);
  if (chosen.empty()) return name + " names no interface that is up";
  if (setting.starts_with('^')) return "";
  const bool loopback = std::ranges::all_of(chosen, [](const auto& one) { return one == "lo"; });
  if (loopback) return name + " names the loopback interface, which reaches no other node";
  if (std::ranges::all_of(chosen, is_virtual))
    return name + " names a bridge of containers, which reaches no other node";
  return "";
}

Findings find_wrong_interfaces(const Recording& world) {
  if (!knows_environment(world)) return not_known("NCCL_SOCKET_IFNAME");
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    const auto setting = filled_variable(rank, "NCCL_SOCKET_IFNAME");
    const NodeFacts* node = node_of(world, rank.node);
    if (setting && (node == nullptr || !node->interfaces)) continue;
    const std::string wrong = setting ? wrong_interface(*setting, *node) : "";
    collector.judge(wrong, rank);
  }
  return collector.result(Severity::error,
                          "name the interface between the nodes (ip address), or unset NCCL_SOCKET_IFNAME",
                          "the nodes' network interfaces");
}

Findings find_disabled_infiniband(const Recording& world) {
  if (!knows_environment(world)) return not_known("NCCL_IB_DISABLE");
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    const NodeFacts* node = node_of(world, rank.node);
    if (node == nullptr || !node->infiniband) continue;
    const auto net = variable(rank, "NCCL_NET");
    const bool has_adapters = !node->infiniband->empty();
    if (has_adapters && is_on(variable(rank, "NCCL_IB_DISABLE")))
      collector.wrong("NCCL_IB_DISABLE=1, and there is " + node->infiniband->front(), rank);
    else if (has_adapters && net && *net == "Socket")
      collector.wrong("NCCL_NET=Socket, and there is " + node->infiniband->front(), rank);
    else
      collector.fine();
  }
  return collector.result(Severity::warning, "unset NCCL_IB_DISABLE and NCCL_NET",
                          "the nodes' InfiniBand adapters");
}

/// Without InfiniBand NCCL uses sockets.
Findings find_slow_network(const Recording& world) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    if (!node.infiniband) continue;
    const bool on_ethernet = node.infiniband->empty();
    const std::int64_t fastest = fastest_interface(node);
    if (on_ethernet && fastest == 0) continue;
    collector.judge(on_ethernet && fastest < kFastEthernet,
                    "no InfiniBand, and the fastest interface has " + std::to_string(fastest) + " Mbit/s",
                    node);
  }
  return collector.result(
      Severity::warning,
      "train on one node, on nodes with a faster network, or with --accumulate_grad_batches N",
      "the speed of the nodes' networks");
}

Findings find_disabled_peers(const Recording& world) {
  if (!knows_environment(world)) return not_known("NCCL_P2P_DISABLE");
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    const bool has_peers = ranks_of(world, rank.node).size() > 1;
    for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}) {
      collector.judge(
          has_peers && is_on(variable(rank, name)) ? std::string(name) + "=" + *variable(rank, name) : "",
          rank);
    }
  }
  return collector.result(Severity::warning, "unset it", "the ranks' environment");
}

Findings find_debug_output(const Recording& world) {
  if (!knows_environment(world)) return not_known("NCCL_DEBUG");
  auto ranks = group_by<int>(
      world.ranks, [](const RankFacts& rank) { return variable(rank, "NCCL_DEBUG").value_or(""); },
      &RankFacts::rank);
  std::erase_if(ranks, [](const auto& group) { return group.first != "INFO" && group.first != "TRACE"; });
  if (ranks.empty()) return {};
  return note("NCCL_DEBUG=" + groups_text(ranks), "unset NCCL_DEBUG when the connection works");
}

/// All ranks have to choose the same way; those that say where a node's own things are may differ.
Findings find_unlike_settings(const Recording& world) {
  if (!knows_environment(world)) return not_known("the ranks' environment");
  std::set<std::string> names;
  for (const RankFacts& rank : world.ranks) {
    if (!rank.environment) continue;
    for (const auto& [name, value] : *rank.environment) {
      if (name.starts_with("NCCL_")) names.insert(name);
    }
  }
  for (const char* local : {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_TOPO_FILE", "NCCL_DEBUG",
                            "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"})
    names.erase(local);
  for (const std::string& name : names) {
    std::map<std::string, std::vector<int>> values;
    for (const RankFacts& rank : world.ranks) {
      if (rank.environment)
        values[name + "=" + variable(rank, name).value_or("(unset)")].push_back(rank.rank);
    }
    if (values.size() > 1)
      return error(groups_text(values), "export it to all nodes: mpirun -x " + name + ", or set it nowhere");
  }
  return {};
}

}  // namespace

std::vector<Check> nccl_checks() {
  return {
      {"nccl.version", "Ranks have unequal versions of NCCL",
       "Ranks with unequal versions do not connect, or hang.", find_nccl_versions, uses_nccl},
      {"nccl.copies", "A process finds two versions of NCCL",
       "The order of loading decides which one is used, and it may differ from the tested one.",
       find_nccl_copies, uses_nccl},
      {"nccl.interface", "NCCL_SOCKET_IFNAME leads to no other node",
       "NCCL connects the nodes over these interfaces, and waits until its timeout if none works.",
       find_wrong_interfaces, uses_nccl_between_nodes},
      {"nccl.infiniband", "InfiniBand is there and switched off",
       "NCCL falls back to sockets, at a tenth of the speed or less.", find_disabled_infiniband,
       uses_nccl_between_nodes},
      {"nccl.slow_network", "The network between the nodes is slow",
       "Gradients of all parameters travel between the nodes at every step.", find_slow_network,
       uses_nccl_between_nodes},
      {"nccl.p2p", "NCCL's ways within a node are switched off",
       "GPUs of a node then exchange gradients over the host's memory or its network.", find_disabled_peers,
       uses_nccl},
      {"nccl.debug", "NCCL_DEBUG is on", "Every rank writes hundreds of lines, and some at every operation.",
       find_debug_output, uses_nccl},
      {"nccl.settings", "NCCL's settings differ between ranks",
       "Ranks that choose different algorithms or transports hang, or give wrong sums.", find_unlike_settings,
       uses_nccl},
  };
}

}  // namespace cxtrain::doctor
