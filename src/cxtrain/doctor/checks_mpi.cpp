#include <algorithm>
#include <array>

#include "cxtrain/doctor/check_support.h"

/// How MPI connects the ranks.
namespace cxtrain::doctor {
namespace {

/// Bytes of 1 MiB that an all-reduce does per second. Memory of a node does several times as much even with
/// one core for each rank; between nodes, half of the link's speed is the best, and messages of this size
/// reach a tenth of that everywhere.
constexpr double kSlowOnNode = 0.2e9, kSlowBetweenNodes = 0.1e9, kPartOfLink = 0.05;
/// Seconds that an all-reduce of 64 bytes takes. A node's memory needs 1 to 20 microseconds, Ethernet 50 to
/// 300; ranks that wait for a core take milliseconds.
constexpr double kLateOnNode = 500e-6, kLateBetweenNodes = 2e-3;

Findings find_mpi_versions(const Recording& world) {
  const auto ranks = group_by<int>(world.ranks, &RankFacts::mpi_version, &RankFacts::rank);
  return unlike(Severity::error, "", ranks, "load one MPI module on all nodes", "the ranks' MPI");
}

bool has_word(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// What is wrong with a list of Open MPI's transports (BTLs); empty: nothing.
std::string wrong_transports(std::string list, bool has_neighbours, bool needs_network) {
  const bool except = list.starts_with('^');
  if (except) list.erase(0, 1);
  const std::vector<std::string> words = split_words(list);
  const bool shared = has_word(words, "vader") || has_word(words, "sm");
  const bool network = std::ranges::any_of(
      words, [](const auto& word) { return word != "self" && word != "vader" && word != "sm"; });
  if (has_neighbours && shared == except) return "no shared memory between ranks of a node";
  if (needs_network && !except && !network) return "no network between nodes";
  return "";
}

Findings find_restricted_transports(const Recording& world) {
  if (!knows_environment(world)) return not_known("Open MPI's settings");
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    const auto list = filled_variable(rank, "OMPI_MCA_btl"), pml = variable(rank, "OMPI_MCA_pml");
    const bool unused = pml && (*pml == "ucx" || *pml == "cm");
    const std::string wrong = list && !unused ? wrong_transports(*list, ranks_of(world, rank.node).size() > 1,
                                                                 has_several_nodes(world))
                                              : "";
    collector.judge(wrong.empty() ? "" : "OMPI_MCA_btl=" + *list + ": " + wrong, rank);
  }
  return collector.result(Severity::warning,
                          "leave the choice to Open MPI: unset OMPI_MCA_btl, or self,vader,tcp",
                          "Open MPI's settings");
}

/// A setting of mpirun by its name in Open MPI 4 and in Open MPI 5, whose mpirun is PRRTE's. Neither version
/// reads the other's name (seen with 4.1.4 and 5.0.7). An empty name: that version has no such setting.
struct Setting {
  const char* in_4;
  const char* in_5;
  std::string name_in(bool is_5) const { return is_5 ? in_5 : in_4; }
};
constexpr std::array kSettings{
    Setting{"OMPI_MCA_rmaps_base_oversubscribe", "PRTE_MCA_rmaps_default_mapping_policy"},
    Setting{"OMPI_MCA_rmaps_base_mapping_policy", "PRTE_MCA_rmaps_default_mapping_policy"},
    Setting{"OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy"},
    Setting{"OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_oob_tcp_if_include"},
    Setting{"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"},
    Setting{"OMPI_MCA_odls_base_sigkill_timeout", ""},
};

/// "Open MPI v5" of "Open MPI v5.0.7".
std::string major_version(const std::string& mpi) { return mpi.substr(0, mpi.find('.')); }

/// Whether the rank has what `unread` means also by a name that its version reads; one name may have several
/// counterparts.
bool has_counterpart(const RankFacts& rank, const std::string& unread, bool is_5) {
  return std::ranges::any_of(kSettings, [&](const Setting& setting) {
    return setting.name_in(!is_5) == unread && variable(rank, setting.name_in(is_5));
  });
}

Findings find_unread_settings(const Recording& world) {
  if (!knows_environment(world)) return not_known("Open MPI's settings");
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    const std::string version = major_version(rank.mpi_version);
    const bool is_5 = version == "Open MPI v5";
    if (!is_5 && version != "Open MPI v4") continue;
    collector.fine();
    for (const Setting& setting : kSettings) {
      const std::string unread = setting.name_in(!is_5), read = setting.name_in(is_5);
      if (unread.empty() || !variable(rank, unread) || has_counterpart(rank, unread, is_5)) continue;
      collector.wrong(version + " does not read " + unread +
                          (read.empty() ? ", and has no such setting" : "; its name is " + read),
                      rank);
    }
  }
  return collector.result(Severity::warning, "set the variable that this version of Open MPI reads",
                          "which Open MPI the ranks use");
}

Findings find_wrong_mpi_interface(const Recording& world) {
  if (!knows_environment(world)) return not_known("Open MPI's settings");
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    const NodeFacts* node = node_of(world, rank.node);
    for (const char* name :
         {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_oob_tcp_if_include"}) {
      const auto setting = filled_variable(rank, name);
      if (!setting || setting->find('/') != std::string::npos) {  // a network's address
        collector.fine();
        continue;
      }
      if (node == nullptr || !node->interfaces) continue;
      const std::vector<std::string> names = split_words(*setting);
      const bool leads_out = std::any_of(
          node->interfaces->begin(), node->interfaces->end(), [&](const InterfaceFacts& interface) {
            return interface.name != "lo" && interface.up.value_or(true) && has_word(names, interface.name);
          });
      collector.judge(!leads_out, std::string(name) + "=" + *setting + " names no interface to other nodes",
                      rank);
    }
  }
  return collector.result(Severity::error, "name an interface that all nodes have, or unset it",
                          "the nodes' network interfaces");
}

Findings find_oversubscription(const Recording& world) {
  FindingsCollector collector;
  for (const auto& [machine, ranks] : ranks_of_machines(world)) {
    const NodeFacts* node = node_of(world, ranks.front()->node);
    if (node == nullptr || !node->cores) continue;
    const int count = static_cast<int>(ranks.size());
    for (const RankFacts* rank : ranks) {
      collector.judge(count > *node->cores,
                      std::to_string(count) + " ranks on " + std::to_string(*node->cores) + " cores", *rank);
    }
  }
  return collector.result(Severity::warning, "start at most one rank for each core", "the machines' cores");
}

/// Open MPI's ranks leave their core while they wait, where this is on.
Findings find_yielding(const Recording& world) {
  if (!knows_environment(world)) return not_known("Open MPI's settings");
  std::vector<int> yielding;
  for (const RankFacts& rank : world.ranks) {
    if (is_on(variable(rank, "OMPI_MCA_mpi_yield_when_idle"))) yielding.push_back(rank.rank);
  }
  if (yielding.empty()) return {};
  return note("OMPI_MCA_mpi_yield_when_idle=1 on " + ranks_text(yielding),
              "set it only if ranks outnumber cores");
}

Findings find_thread_level(const Recording& world) {
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    if (rank.mpi_threads == "single" || rank.mpi_threads == "funneled")
      collector.wrong("MPI gives the thread level " + rank.mpi_threads, rank);
    else if (!rank.mpi_threads.empty())
      collector.fine();
  }
  return collector.result(Severity::error, "use an MPI that was built with threads (SERIALIZED or MULTIPLE)",
                          "MPI's thread level");
}

/// The slowest node's fastest link, bytes per second; 0: not known.
double slowest_link(const Recording& world) {
  double slowest = 0;
  for (const NodeFacts& node : world.nodes) {
    const double fastest = static_cast<double>(fastest_interface(node)) * 1e6 / 8;
    if (fastest > 0 && (slowest == 0 || fastest < slowest)) slowest = fastest;
  }
  return slowest;
}

Findings find_slow_reduction(const Recording& world) {
  const double seconds = world.job.reduce_seconds.value_or(0);
  if (seconds <= 0 || !world.job.reduce_bytes) return not_known("how fast an all-reduce is");
  const double speed = static_cast<double>(*world.job.reduce_bytes) / seconds;
  const double link = slowest_link(world);
  double expected = kSlowOnNode;
  if (has_several_nodes(world))
    expected = link > 0 ? std::min(kSlowBetweenNodes, kPartOfLink * link) : kSlowBetweenNodes;
  if (speed >= expected) return {};
  return warning(
      "an all-reduce of " + bytes_text(static_cast<double>(*world.job.reduce_bytes)) + " runs at " +
          bytes_text(speed) + "/s" +
          (has_several_nodes(world) && link > 0 ? " over links of " + number_text(link * 8e-9, 0) + " Gbit/s"
                                                : ""),
      "see the other findings (cores, transports, interfaces); mpirun --mca btl_base_verbose 30 "
      "lists what Open MPI uses");
}

Findings find_late_reduction(const Recording& world) {
  if (!world.job.small_reduce_seconds) return not_known("how fast a small all-reduce is");
  const double seconds = *world.job.small_reduce_seconds;
  if (seconds <= (has_several_nodes(world) ? kLateBetweenNodes : kLateOnNode)) return {};
  return warning("an all-reduce of 64 bytes takes " + number_text(seconds * 1e6, 0) + " us",
                 "look for ranks that share cores, other load on the nodes, and the interface that MPI uses");
}

}  // namespace

std::vector<Check> mpi_checks() {
  return {
      {"mpi.version", "Ranks have unequal versions of MPI", "They do not connect, or fail at any message.",
       find_mpi_versions},
      {"mpi.transport", "Open MPI is kept from transports that it needs",
       "Ranks of a node then talk through the network's software, or nodes do not reach each other.",
       find_restricted_transports, has_several_ranks},
      {"mpi.settings", "A setting is meant for another version of Open MPI",
       "Open MPI ignores the variable, and runs as if it were not set.", find_unread_settings},
      {"mpi.interface", "Open MPI is set to use an interface that does not connect the nodes",
       "The nodes do not connect, and the job waits until its timeout.", find_wrong_mpi_interface,
       has_several_nodes},
      {"mpi.oversubscribed", "Ranks outnumber the machine's cores",
       "A rank that waits for a message takes the core of the one that would send it.",
       find_oversubscription},
      {"mpi.yield", "Ranks leave their core while they wait",
       "Each message then takes longer, which only helps if ranks outnumber cores.", find_yielding},
      {"mpi.threads", "MPI was built without threads",
       "Messages are sent by other threads than the main one, one at a time.", find_thread_level,
       has_several_ranks},
      {"mpi.bandwidth", "All-reduces on the host are slow",
       "Ranks on the CPU exchange all gradients in this way at every step.", find_slow_reduction,
       has_several_ranks},
      {"mpi.latency", "Small all-reduces take long", "Every step ends with a small agreement of all ranks.",
       find_late_reduction, has_several_ranks},
  };
}

}  // namespace cxtrain::doctor
