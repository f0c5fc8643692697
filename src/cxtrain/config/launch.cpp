#include "cxtrain/config/decisions.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cxtrain/config/devices.h"
#include "cxtrain/config/strategy_choice.h"

namespace cxtrain {
namespace {

/// A rank's share of a node's devices; no node has more.
constexpr int kMostDevicesPerRank = 1024;

/// Processes on the CPU that the program starts by itself: a few more than cores are a test of a larger run,
/// many more are a mistake that makes the machine useless.
constexpr int kMostPerCore = 8, kAlwaysAllowed = 16;

/// In the plan: there is one process, which was started.
constexpr const char* kNoLauncher = "none";

std::string count_of(int n, const std::string& thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

/// How to start `per_node` ranks on each of `nodes` nodes.
std::string command_line(LaunchedBy launcher, int per_node, int nodes) {
  const std::string ranks = std::to_string(std::int64_t{per_node} * nodes), each = std::to_string(per_node);
  if (launcher == LaunchedBy::srun) {
    return "srun --mpi=pmix -N " + std::to_string(nodes) + " -n " + ranks + " --ntasks-per-node=" + each +
           " cxtrain_mpi ...";
  }
  return "mpirun -np " + ranks + (nodes > 1 ? " --map-by ppr:" + each + ":node" : "") + " cxtrain_mpi ...";
}

/// The ranks that so many devices of a node make; a count that does not divide is refused.
int ranks_of(int devices, const char* option, Plan& plan) {
  const int each = plan.devices_per_rank;
  if (devices % each != 0) {
    const int less = devices / each * each, more = less + each;
    plan.errors.push_back(
        {option,
         count_of(devices, "device") +
             " per node cannot be dealt out with devices_per_rank=" + std::to_string(each),
         "use " + (less > 0 ? std::to_string(less) + " or " : "") + std::to_string(more) + " devices"});
  }
  return std::max(1, devices / each);
}

std::vector<int> nodes_of_ranks(const WorldFacts& launched) {
  if (!launched.rank_nodes.empty()) return launched.rank_nodes;
  std::vector<int> nodes;
  for (int rank = 0; rank < launched.size; ++rank) {
    nodes.push_back(std::min(rank / std::max(1, launched.max_local_size), launched.num_nodes - 1));
  }
  return nodes;
}

/// The fewest and the most ranks that a node has.
std::pair<int, int> ranks_per_node(const std::vector<int>& nodes, int num_nodes) {
  std::vector<int> sizes(static_cast<std::size_t>(num_nodes));
  for (const int node : nodes) ++sizes[static_cast<std::size_t>(node)];
  const auto ends = std::minmax_element(sizes.begin(), sizes.end());
  return {*ends.first, *ends.second};
}

void set_strategy(const std::string& name, const KnownStrategies& strategies, Plan& plan) {
  plan.strategy = name;
  plan.traits = traits_of(strategies, name);
}

void choose_joined_strategy(const TrainerOptions& trainer, const KnownStrategies& strategies,
                            const WorldFacts& launched, Plan& plan) {
  const bool spawned = launched.launched_by == LaunchedBy::spawn;
  set_strategy(trainer.strategy.value_or(spawned             ? kStrategyOfSpawnedRanks
                                         : launched.size > 1 ? kStrategyOfSeveralRanks
                                                             : kStrategyOfOneRank),
               strategies, plan);
  const std::string other = plan.traits.joined_as;
  if (other.empty() || spawned) return;
  plan.warnings.push_back({"strategy",
                           plan.strategy + " has nothing to spawn, since " + plan.launcher +
                               " has started the ranks: it is " + other,
                           "use --strategy " + other + ", or start the program without " + plan.launcher});
  set_strategy(other, strategies, plan);
}

/// How many replicas a rank keeps; `devices`: how many a strategy gets that takes all.
int replicas_of_rank(int devices, const Plan& plan) {
  if (plan.traits.takes_all_devices()) return devices;
  return plan.traits.devices == StrategyTraits::Devices::replicas ? plan.devices_per_rank : 1;
}

/// Ranks that exist already: what was asked must be what there is.
std::vector<int> join_world(const TrainerOptions& trainer, const KnownStrategies& strategies,
                            const DeviceChoice& devices, const WorldFacts& launched, Plan& plan) {
  const std::string by(to_string(launched.launched_by));
  plan.launcher = by;
  plan.world_size = launched.size;
  plan.num_nodes = launched.num_nodes;
  choose_joined_strategy(trainer, strategies, launched, plan);
  std::vector<int> nodes = nodes_of_ranks(launched);
  if (plan.traits.ranks == StrategyTraits::Ranks::one && launched.size > 1) {
    plan.errors.push_back({"strategy",
                           plan.strategy + " is one process, but " + by + " started " +
                               std::to_string(launched.size) + ": they would be " +
                               std::to_string(launched.size) + " unrelated trainings",
                           "use --strategy ddp, or start the program without " + by});
    return nodes;
  }
  const auto [fewest, most] = ranks_per_node(nodes, launched.num_nodes);
  // 0: nothing was asked
  const int ranks =
      devices.count && !plan.traits.takes_all_devices() ? ranks_of(*devices.count, devices.option, plan) : 0;
  plan.replicas = replicas_of_rank(devices.count.value_or(1), plan);
  const int asked_nodes = trainer.num_nodes.value_or(launched.num_nodes);
  if (asked_nodes != launched.num_nodes) {
    plan.errors.push_back({"num_nodes",
                           count_of(asked_nodes, "node") + " asked for, but " + by + " started ranks on " +
                               count_of(launched.num_nodes, "node"),
                           "start it as `" +
                               command_line(launched.launched_by, ranks > 0 ? ranks : most, asked_nodes) +
                               "`, or drop --num_nodes"});
  }
  if (ranks > 0 && (ranks != fewest || fewest != most)) {
    const std::string found =
        fewest == most ? count_of(most, "rank") : std::to_string(fewest) + " to " + count_of(most, "rank");
    const std::string each =
        plan.devices_per_rank > 1 ? ", " + std::to_string(plan.devices_per_rank) + " per rank," : "";
    plan.errors.push_back({devices.option,
                           count_of(*devices.count, "device") + " per node" + each + " asked for, but " + by +
                               " started " + found + (launched.num_nodes > 1 ? " on each node" : ""),
                           "start it as `" + command_line(launched.launched_by, ranks, asked_nodes) +
                               "`, or drop --" + devices.option});
  }
  return nodes;
}

/// How many devices a program that was started alone is to use.
int devices_alone(const StrategyTraits& strategy, const DeviceChoice& devices, const Hardware& hardware,
                  const Plan& plan) {
  const int each = plan.devices_per_rank;
  if (devices.count) return *devices.count;
  if (!devices.automatic || !devices.gpu || strategy.is_one_group()) return each;
  const int visible = static_cast<int>(visible_gpus(hardware, 0).gpus.size());
  return std::max(each, visible / each * each);
}

/// More processes than cores: slower, and beyond a certain number refused.
void compare_with_cores(int cores, const char* option, Plan& plan) {
  const bool replicas = plan.replicas > 1;
  const int busy = plan.world_size * plan.replicas;
  if (busy <= cores) return;
  const int most =
      std::max(kAlwaysAllowed,
               static_cast<int>(std::min<std::int64_t>(std::int64_t{kMostPerCore} * cores, kMostRanks)));
  const std::string share =
      std::to_string(busy) + (replicas ? " replicas" : " processes") + " share " + count_of(cores, "core");
  const std::string enough =
      "use --devices " + std::to_string(std::int64_t{cores} * (replicas ? 1 : plan.devices_per_rank));
  if (busy <= most) {
    plan.warnings.push_back({option, share, enough});
    return;
  }
  const std::string all_the_same =
      replicas ? "" : "; `mpirun --oversubscribe -np " + std::to_string(busy) + "` starts them all the same";
  plan.errors.push_back({option,
                         share + ", and that is too many: the most is " + std::to_string(most) + " (" +
                             std::to_string(kMostPerCore) + " for each core, " +
                             std::to_string(kAlwaysAllowed) + " at least)",
                         enough + all_the_same});
}

/// Who starts the ranks of a program that was started alone.
std::string launcher_of(const Plan& plan) {
  if (plan.traits.ranks == StrategyTraits::Ranks::one) return kNoLauncher;
  if (plan.traits.launcher == StrategyTraits::Launcher::spawn) return "spawn";
  return plan.world_size > 1 ? "subprocess" : kNoLauncher;
}

/// Started alone: how many devices, and who starts the other ranks.
std::vector<int> start_alone(const TrainerOptions& trainer, const KnownStrategies& strategies,
                             const DeviceChoice& devices, const Hardware& hardware, Plan& plan) {
  const StrategyTraits asked = traits_of(strategies, trainer.strategy);
  const int wanted = devices_alone(asked, devices, hardware, plan);
  const int ranks = asked.takes_all_devices() ? 1 : ranks_of(wanted, devices.option, plan);
  set_strategy(trainer.strategy.value_or(ranks > 1 ? kStrategyOfSeveralRanks : kStrategyOfOneRank),
               strategies, plan);
  if (trainer.num_nodes.value_or(1) > 1) {
    plan.errors.push_back(
        {"num_nodes",
         count_of(*trainer.num_nodes, "node") + " asked for, but the program was started alone on one",
         "start it as `" + command_line(LaunchedBy::mpirun, ranks, *trainer.num_nodes) +
             "` with a host file, or in a Slurm job"});
  }
  if (plan.traits.is_one_group() && ranks > 1) {
    plan.errors.push_back(
        {"strategy",
         plan.strategy + " uses " +
             (plan.devices_per_rank == 1 ? "one device" : count_of(plan.devices_per_rank, "device")) +
             ", but " + count_of(wanted, "device") + " were asked for",
         "use --strategy ddp, or " + count_of(plan.devices_per_rank, "device")});
  }
  plan.replicas = replicas_of_rank(wanted, plan);
  plan.world_size = plan.traits.ranks == StrategyTraits::Ranks::one ? 1 : ranks;
  plan.launcher = launcher_of(plan);
  if (!devices.gpu) compare_with_cores(hardware.node(0).cores, devices.option, plan);
  return std::vector<int>(static_cast<std::size_t>(plan.world_size), 0);
}

void choose_devices_per_rank(const TrainerOptions& trainer, const StrategyTraits& strategy, Plan& plan) {
  if (trainer.devices_per_rank < 1) {
    plan.errors.push_back(
        {"devices_per_rank", std::to_string(trainer.devices_per_rank) + " is too small; the least is 1", ""});
  } else if (trainer.devices_per_rank > kMostDevicesPerRank) {
    plan.errors.push_back({"devices_per_rank",
                           std::to_string(trainer.devices_per_rank) +
                               " is more than any node has; the most is " +
                               std::to_string(kMostDevicesPerRank),
                           ""});
  } else if (trainer.devices_per_rank > 1 && strategy.takes_all_devices()) {
    plan.errors.push_back({"devices_per_rank",
                           *trainer.strategy +
                               " keeps a whole replica on each device, but devices_per_rank=" +
                               std::to_string(trainer.devices_per_rank) + " splits the model",
                           "use --strategy ddp"});
  } else if (trainer.devices_per_rank > 1 && strategy.devices == StrategyTraits::Devices::one) {
    plan.errors.push_back({"devices_per_rank",
                           *trainer.strategy + " uses one device on each rank, but devices_per_rank=" +
                               std::to_string(trainer.devices_per_rank) + " splits the model",
                           "use --strategy ddp"});
  } else {
    plan.devices_per_rank = trainer.devices_per_rank;
  }
}

}  // namespace

std::vector<int> choose_launch(const TrainerOptions& asked, const KnownStrategies& strategies,
                               const DeviceChoice& devices, const Hardware& hardware,
                               const WorldFacts& launched, Plan& plan) {
  TrainerOptions trainer = asked;
  if (trainer.num_nodes && *trainer.num_nodes < 1) {
    plan.errors.push_back(
        {"num_nodes", std::to_string(*trainer.num_nodes) + " is too small; the least is 1", ""});
    trainer.num_nodes.reset();
  }
  if (trainer.num_nodes && *trainer.num_nodes > kMostRanks) {
    plan.errors.push_back({"num_nodes",
                           std::to_string(*trainer.num_nodes) +
                               " is more than any machine has; the most is " + std::to_string(kMostRanks),
                           ""});
    trainer.num_nodes.reset();
  }
  choose_devices_per_rank(trainer, traits_of(strategies, trainer.strategy), plan);
  return launched.launched_by == LaunchedBy::alone ? start_alone(trainer, strategies, devices, hardware, plan)
                                                   : join_world(trainer, strategies, devices, launched, plan);
}

bool needs_launch(const Plan& plan, const WorldFacts& launched) {
  return launched.launched_by == LaunchedBy::alone && plan.launcher != kNoLauncher;
}

}  // namespace cxtrain
