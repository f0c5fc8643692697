#include "cxtrain/config/launch.h"

#include <algorithm>
#include <utility>

#include "cxtrain/config/visible_gpus.h"

namespace cxtrain {
namespace {

bool is_one_process(const std::string& strategy) { return strategy == "single" || strategy == "dp"; }

std::string count_of(int n, const std::string& thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

/// How to start `per_node` ranks on each of `nodes` nodes.
std::string command_line(LaunchedBy launcher, int per_node, int nodes) {
  const std::string ranks = std::to_string(per_node * nodes), each = std::to_string(per_node);
  if (launcher == LaunchedBy::srun) {
    return "srun --mpi=pmix -N " + std::to_string(nodes) + " -n " + ranks + " --ntasks-per-node=" + each +
           " cxtrain_mpi ...";
  }
  return "mpirun -np " + ranks + (nodes > 1 ? " --map-by ppr:" + each + ":node" : "") + " cxtrain_mpi ...";
}

std::vector<int> nodes_of_ranks(const WorldFacts& launched) {
  if (!launched.rank_nodes.empty()) return launched.rank_nodes;
  std::vector<int> nodes;
  for (int rank = 0; rank < launched.size; ++rank) {
    nodes.push_back(std::min(rank / std::max(1, launched.max_local_size), launched.num_nodes - 1));
  }
  return nodes;
}

/// Ranks that exist already: what was asked must be what there is.
std::vector<int> join_world(const TrainerOptions& trainer, const DeviceChoice& devices,
                            const WorldFacts& launched, Plan& plan) {
  const std::string by(to_string(launched.launched_by));
  plan.launcher = by;
  plan.world_size = launched.size;
  plan.num_nodes = launched.num_nodes;
  plan.strategy = trainer.strategy.value_or(launched.size > 1 ? "ddp" : "single");
  std::vector<int> nodes = nodes_of_ranks(launched);
  if (is_one_process(plan.strategy) && launched.size > 1) {
    plan.errors.push_back({"strategy",
                           plan.strategy + " is one process, but " + by + " started " +
                               std::to_string(launched.size) + ": they would be " +
                               std::to_string(launched.size) + " unrelated trainings",
                           "use --strategy ddp, or start the program without " + by});
    return nodes;
  }
  const int asked_nodes = trainer.num_nodes.value_or(launched.num_nodes);
  const auto [fewest, most] = [&] {
    std::vector<int> sizes(static_cast<std::size_t>(launched.num_nodes));
    for (const int node : nodes) ++sizes[static_cast<std::size_t>(node)];
    const auto ends = std::minmax_element(sizes.begin(), sizes.end());
    return std::pair(*ends.first, *ends.second);
  }();
  if (asked_nodes != launched.num_nodes && asked_nodes >= 1) {
    plan.errors.push_back({"num_nodes",
                           count_of(asked_nodes, "node") + " asked for, but " + by + " started ranks on " +
                               count_of(launched.num_nodes, "node"),
                           "start it as `" +
                               command_line(launched.launched_by, devices.count.value_or(most), asked_nodes) +
                               "`, or drop --num_nodes"});
  }
  const bool agrees = !devices.count || plan.strategy == "dp" || (*devices.count == fewest && fewest == most);
  if (!agrees) {
    const std::string found =
        fewest == most ? count_of(most, "rank") : std::to_string(fewest) + " to " + count_of(most, "rank");
    plan.errors.push_back({devices.option,
                           count_of(*devices.count, "device") + " per node asked for, but " + by +
                               " started " + found + (launched.num_nodes > 1 ? " on each node" : ""),
                           "start it as `" + command_line(launched.launched_by, *devices.count, asked_nodes) +
                               "`, or drop --" + devices.option});
  }
  return nodes;
}

/// Started alone: how many devices, and who starts the other ranks.
std::vector<int> start_alone(const TrainerOptions& trainer, const DeviceChoice& devices,
                             const Hardware& hardware, Plan& plan) {
  int wanted = devices.count.value_or(1);
  if (!devices.count && devices.automatic && devices.gpu) {
    wanted = trainer.strategy == "single" ? 1 : static_cast<int>(visible_gpus(hardware, 0).gpus.size());
  }
  plan.strategy = trainer.strategy.value_or(wanted > 1 ? "ddp" : "single");
  if (trainer.num_nodes.value_or(1) > 1) {
    plan.errors.push_back(
        {"num_nodes",
         count_of(*trainer.num_nodes, "node") + " asked for, but the program was started alone on one",
         "start it as `" + command_line(LaunchedBy::mpirun, wanted, *trainer.num_nodes) +
             "` with a host file, or in a Slurm job"});
  }
  if (plan.strategy == "single" && wanted > 1) {
    plan.errors.push_back({"strategy",
                           "single uses one device, but " + count_of(wanted, "device") + " were asked for",
                           "use --strategy ddp, or one device"});
    wanted = 1;
  }
  if (plan.strategy == "dp" && !devices.gpu && wanted > 1) {
    plan.errors.push_back(
        {"strategy",
         "dp keeps one replica on each GPU, but " + count_of(wanted, "device") + " were asked for on the CPU",
         "use --strategy ddp"});
  }
  plan.world_size = is_one_process(plan.strategy) ? 1 : wanted;
  plan.launcher = plan.strategy == "ddp_spawn" ? "spawn" : plan.world_size > 1 ? "subprocess" : "none";
  const int cores = hardware.node(0).cores;
  if (!devices.gpu && plan.world_size > cores) {
    plan.warnings.push_back({devices.option,
                             std::to_string(plan.world_size) + " processes share " + count_of(cores, "core"),
                             "use --devices " + std::to_string(cores)});
  }
  return std::vector<int>(static_cast<std::size_t>(plan.world_size), 0);
}

}  // namespace

std::vector<int> choose_launch(const TrainerOptions& asked, const DeviceChoice& devices,
                               const Hardware& hardware, const WorldFacts& launched, Plan& plan) {
  TrainerOptions trainer = asked;
  if (trainer.strategy == "auto") trainer.strategy.reset();  // Lightning's word for "not asked"
  if (trainer.num_nodes && *trainer.num_nodes < 1) {
    plan.errors.push_back(
        {"num_nodes", std::to_string(*trainer.num_nodes) + " is too small; the least is 1", ""});
    trainer.num_nodes.reset();
  }
  return launched.launched_by == LaunchedBy::alone ? start_alone(trainer, devices, hardware, plan)
                                                   : join_world(trainer, devices, launched, plan);
}

}  // namespace cxtrain
