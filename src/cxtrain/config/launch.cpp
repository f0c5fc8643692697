#include "cxtrain/base/text.h"
#include "cxtrain/config/resolve_steps.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cxtrain/cluster/slurm_allocation.h"
#include "cxtrain/config/devices.h"
#include "cxtrain/config/strategy_choice.h"

namespace cxtrain {
namespace {

/// Processes on the CPU that the program starts by itself: a few more than cores are a test of a larger run,
/// many more are a mistake that makes the machine useless.
constexpr int kMaxPerCore = 8, kAlwaysAllowed = 16;

/// In the plan: there is one process, which was started.
constexpr const char* kNoLauncher = "none";

/// How to start `per_node` ranks on each of `nodes` nodes, by srun with a barrier of all nodes
/// (docs/clusters.md).
std::string command_line(LaunchedBy launcher, int per_node, int nodes) {
  const std::string ranks = std::to_string(std::int64_t{per_node} * nodes), each = std::to_string(per_node);
  if (launcher == LaunchedBy::srun) {
    return std::string(nodes > 1 ? "SLURM_PMIX_FENCE=ring " : "") + "srun --mpi=pmix -N " +
           std::to_string(nodes) + " -n " + ranks + " --ntasks-per-node=" + each + " cxtrain_mpi ...";
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
         counted(devices, "device") +
             " per node cannot be dealt out with devices_per_rank=" + std::to_string(each),
         "use " + (less > 0 ? std::to_string(less) + " or " : "") + std::to_string(more) + " devices",
         MessageCode::wrong_ranks});
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
  const auto [fewest, most] = std::ranges::minmax(sizes);
  return {fewest, most};
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
  const std::string by(word_of(launched.launched_by));
  plan.launcher = by;
  plan.world_size = launched.size;
  plan.num_nodes = launched.num_nodes;
  choose_joined_strategy(trainer, strategies, launched, plan);
  std::vector<int> nodes = nodes_of_ranks(launched);
  if (plan.traits.ranks == StrategyTraits::Ranks::one && launched.size > 1) {
    plan.errors.push_back(
        {"strategy",
         plan.strategy + " is one process, but " + by + " started " + std::to_string(launched.size) +
             ": they would be " + std::to_string(launched.size) + " unrelated trainings",
         "use --strategy ddp, or start the program without " + by, MessageCode::wrong_ranks});
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
                           counted(asked_nodes, "node") + " asked for, but " + by + " started ranks on " +
                               counted(launched.num_nodes, "node"),
                           "start it as `" +
                               command_line(launched.launched_by, ranks > 0 ? ranks : most, asked_nodes) +
                               "`, or drop --num_nodes",
                           MessageCode::wrong_ranks});
  }
  if (ranks > 0 && (ranks != fewest || fewest != most)) {
    const std::string found =
        fewest == most ? counted(most, "rank") : std::to_string(fewest) + " to " + counted(most, "rank");
    const std::string each =
        plan.devices_per_rank > 1 ? ", " + std::to_string(plan.devices_per_rank) + " per rank," : "";
    plan.errors.push_back({devices.option,
                           counted(*devices.count, "device") + " per node" + each + " asked for, but " + by +
                               " started " + found + (launched.num_nodes > 1 ? " on each node" : ""),
                           "start it as `" + command_line(launched.launched_by, ranks, asked_nodes) +
                               "`, or drop --" + devices.option,
                           MessageCode::wrong_ranks});
  }
  return nodes;
}

using Job = std::optional<SlurmAllocation>;

/// How many devices of a node a program that was started alone is to use.
int devices_alone(const StrategyTraits& strategy, const DeviceChoice& devices, const Hardware& hardware,
                  const Job& job, const TrainerOptions& trainer, const Plan& plan) {
  const int each = plan.devices_per_rank;
  if (devices.count) return *devices.count;
  if (strategy.is_one_group()) return each;
  // Who asks for nodes means the whole job.
  if (job && trainer.num_nodes && !devices.automatic) return std::max(1, job->tasks_per_node) * each;
  if (!devices.automatic || !devices.gpu) return each;
  const int visible = static_cast<int>(visible_gpus(hardware, 0).gpus.size());
  return std::max(each, visible / each * each);
}

/// More processes of a node than cores: slower, and beyond a certain number refused.
void compare_with_cores(int ranks, int cores, const char* option, Plan& plan) {
  const bool replicas = plan.replicas > 1;
  const int busy = ranks * plan.replicas;
  if (busy <= cores) return;
  const int most = std::max(
      kAlwaysAllowed, static_cast<int>(std::min<std::int64_t>(std::int64_t{kMaxPerCore} * cores, kMaxRanks)));
  const std::string share =
      std::to_string(busy) + (replicas ? " replicas" : " processes") + " share " + counted(cores, "core");
  const std::string enough =
      "use --devices " + std::to_string(std::int64_t{cores} * (replicas ? 1 : plan.devices_per_rank));
  if (busy <= most) {
    plan.warnings.push_back({option, share, enough});
    return;
  }
  const std::string all_the_same =
      replicas ? "" : "; `mpirun --oversubscribe -np " + std::to_string(busy) + "` starts them anyway";
  plan.errors.push_back({option,
                         share + ", and that is too many: the most is " + std::to_string(most) + " (" +
                             std::to_string(kMaxPerCore) + " for each core, " +
                             std::to_string(kAlwaysAllowed) + " at least)",
                         enough + all_the_same, MessageCode::out_of_range});
}

bool spawns(const StrategyTraits& strategy) {
  return strategy.ranks != StrategyTraits::Ranks::one && strategy.launcher == StrategyTraits::Launcher::spawn;
}

/// Who starts the ranks of a program that was started alone.
std::string launcher_of(const Job& job, const Plan& plan) {
  if (spawns(plan.traits)) return "spawn";
  // What a job trains, it trains on its nodes.
  if (job && (plan.world_size > 1 || !job->is_here)) return "srun";
  return plan.world_size > 1 ? "subprocess" : kNoLauncher;
}

/// The nodes of a program that was started alone, with `per_node` ranks on each: one, or as many as were
/// asked for of the Slurm job that it is in.
int nodes_alone(const TrainerOptions& trainer, const Job& job, int per_node, Plan& plan) {
  const int asked = trainer.num_nodes.value_or(1);
  const bool spreads = plan.traits.ranks != StrategyTraits::Ranks::one && !spawns(plan.traits);
  if (job && !job->is_here && spawns(plan.traits)) {
    plan.errors.push_back(
        {"strategy",
         plan.strategy + " starts its ranks on this machine, which is not a node of Slurm job " + job->job,
         "use --strategy ddp", MessageCode::wrong_ranks});
  }
  if (asked > 1 && !job) {
    plan.errors.push_back({"num_nodes",
                           counted(asked, "node") + " asked for, but the program was started alone on one",
                           "start it as `" + command_line(LaunchedBy::mpirun, per_node, asked) +
                               "` with a host file, or in a Slurm job",
                           MessageCode::wrong_ranks});
    return 1;
  }
  if (asked > 1 && !spreads) {
    plan.errors.push_back({"num_nodes",
                           counted(asked, "node") + " asked for, but " + plan.strategy +
                               " starts all that it needs on one node",
                           "use --strategy ddp", MessageCode::wrong_ranks});
    return 1;
  }
  if (job && asked > job->nodes) {
    plan.errors.push_back({"num_nodes",
                           counted(asked, "node") + " asked for, but Slurm job " + job->job + " has " +
                               std::to_string(job->nodes),
                           "submit it with --nodes=" + std::to_string(asked) + ", or say --num_nodes " +
                               std::to_string(job->nodes),
                           MessageCode::wrong_ranks});
    return 1;
  }
  const bool may_spread = spreads || !trainer.strategy;  // nobody has asked for one process
  if (job && !trainer.num_nodes && may_spread && job->nodes > 1) {
    plan.warnings.push_back(
        {"num_nodes",
         "Slurm job " + job->job + " has " + counted(job->nodes, "node") + ", and this training uses one",
         "say --num_nodes " + std::to_string(job->nodes) + ", or start it by `srun --mpi=pmix`"});
  } else if (job && job->tasks_per_node > per_node && may_spread) {
    plan.warnings.push_back({"devices",
                             "Slurm job " + job->job + " is for " + counted(job->tasks_per_node, "task") +
                                 " on each node, and this training has " + counted(per_node, "rank") +
                                 " there",
                             "say --devices " + std::to_string(job->tasks_per_node * plan.devices_per_rank) +
                                 ", or start it by `srun --mpi=pmix`"});
  }
  return asked;
}

/// Started alone: how many devices, and who starts the other ranks.
std::vector<int> start_alone(const TrainerOptions& trainer, const KnownStrategies& strategies,
                             const DeviceChoice& devices, const Hardware& hardware, Plan& plan) {
  const StrategyTraits asked = traits_of(strategies, trainer.strategy);
  const Job job = slurm_allocation(hardware.env);
  const int wanted = devices_alone(asked, devices, hardware, job, trainer, plan);
  const int ranks = asked.takes_all_devices() ? 1 : ranks_of(wanted, devices.option, plan);
  const bool several = ranks > 1 || (job && trainer.num_nodes.value_or(1) > 1);
  set_strategy(trainer.strategy.value_or(several ? kStrategyOfSeveralRanks : kStrategyOfOneRank), strategies,
               plan);
  plan.num_nodes = nodes_alone(trainer, job, ranks, plan);
  if (plan.traits.is_one_group() && ranks > 1) {
    plan.errors.push_back(
        {"strategy",
         plan.strategy + " uses " +
             (plan.devices_per_rank == 1 ? "one device" : counted(plan.devices_per_rank, "device")) +
             ", but " + counted(wanted, "device") + " were asked for",
         "use --strategy ddp, or " + counted(plan.devices_per_rank, "device"), MessageCode::wrong_ranks});
  }
  plan.replicas = replicas_of_rank(wanted, plan);
  const int per_node = plan.traits.ranks == StrategyTraits::Ranks::one ? 1 : ranks;
  if (!devices.gpu) compare_with_cores(per_node, hardware.node(0).cores, devices.option, plan);
  // Devices and nodes have their limits; only together may they be too many.
  if (std::int64_t{per_node} * plan.num_nodes > kMaxRanks) {
    plan.errors.push_back({"num_nodes",
                           std::to_string(std::int64_t{per_node} * plan.num_nodes) +
                               " ranks are more than any machine has; the most is " +
                               std::to_string(kMaxRanks),
                           "", MessageCode::out_of_range});
    plan.num_nodes = 1;
  }
  plan.world_size = per_node * plan.num_nodes;
  plan.launcher = launcher_of(job, plan);
  std::vector<int> nodes;
  for (int rank = 0; rank < plan.world_size; ++rank) nodes.push_back(rank / per_node);
  return nodes;
}

void choose_devices_per_rank(const TrainerOptions& trainer, const StrategyTraits& strategy, Plan& plan) {
  if (trainer.devices_per_rank < 1 || trainer.devices_per_rank > kMaxOfNode) return;  // check_options
  const bool takes_all = strategy.takes_all_devices();
  if (trainer.devices_per_rank > 1 && (takes_all || strategy.devices == StrategyTraits::Devices::one)) {
    plan.errors.push_back(
        {"devices_per_rank",
         *trainer.strategy +
             (takes_all ? " keeps a whole replica on each device" : " uses one device on each rank") +
             ", but devices_per_rank=" + std::to_string(trainer.devices_per_rank) + " splits the model",
         "use --strategy ddp", MessageCode::conflicting_options});
  } else {
    plan.devices_per_rank = trainer.devices_per_rank;
  }
}

}  // namespace

std::vector<int> choose_launch(const TrainerOptions& asked, const KnownStrategies& strategies,
                               const DeviceChoice& devices, const Hardware& hardware,
                               const WorldFacts& launched, Plan& plan) {
  TrainerOptions trainer = asked;
  // check_options refuses other numbers.
  if (trainer.num_nodes.value_or(1) < 1 || trainer.num_nodes.value_or(1) > kMaxRanks)
    trainer.num_nodes.reset();
  choose_devices_per_rank(trainer, traits_of(strategies, trainer.strategy), plan);
  return launched.launched_by == LaunchedBy::alone ? start_alone(trainer, strategies, devices, hardware, plan)
                                                   : join_world(trainer, strategies, devices, launched, plan);
}

bool needs_launch(const Plan& plan, const WorldFacts& launched) {
  return launched.launched_by == LaunchedBy::alone && plan.launcher != kNoLauncher;
}

}  // namespace cxtrain
