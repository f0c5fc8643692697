#include <strings.h>

#include "cxtrain/base/text.h"
#include "cxtrain/config/values.h"
#include "cxtrain/doctor/check_support.h"

/// How the ranks were started, and what the batch system had given.
namespace cxtrain::doctor {
namespace {

bool was_started_alone(const Recording& world) { return world.job.launcher == "alone"; }

/// Whether a launcher has started the ranks, in a job of Slurm's.
bool was_started_in_job(const Recording& world) { return world.job.allocation && !was_started_alone(world); }

Findings find_missing_pmix(const Recording& world) {
  if (world.job.launcher != "srun") return {};
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    if (!rank.pmix) continue;
    const std::int64_t tasks = parse_integer(variable(rank, "SLURM_NTASKS").value_or("")).value_or(0);
    collector.judge(!*rank.pmix || (tasks > 1 && world_size(world) == 1), "no PMIx in a step of srun", rank);
  }
  return collector.result(Severity::error, "srun --mpi=pmix (srun --mpi=list shows the choices), or mpirun",
                          "whether there is PMIx");
}

/// As Slurm reads it (pmixp_info.c): other words leave the connections on.
bool without_connections(const RankFacts& rank) {
  const std::string text = variable(rank, "SLURM_PMIX_DIRECT_CONN").value_or("");
  return text == "0" || strcasecmp(text.c_str(), "false") == 0 || strcasecmp(text.c_str(), "no") == 0;
}

/// With fewer nodes than its TreeWidth (50, and 16 since 23.11, unless configured) Slurm's tree has no edges
/// (since 20.11: src/common/reverse_tree.c), and so a fence without data, which goes by the tree, is one of
/// each node alone. MPI_Init ends with one. The ring goes over direct connections only.
Findings find_barrier_of_one_node(const Recording& world) {
  if (world.job.launcher != "srun" || !has_several_nodes(world)) return {};
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    if (!rank.environment) continue;
    collector.judge(without_connections(rank) || variable(rank, "SLURM_PMIX_FENCE") != "ring",
                    "Slurm's barrier at the start may end before other nodes' ranks have come", rank);
  }
  return collector.result(
      Severity::warning,
      "export SLURM_PMIX_FENCE=ring and unset SLURM_PMIX_DIRECT_CONN before srun; or for all "
      "jobs PMIxCollFence=ring in Slurm's mpi.conf, which is not seen from here",
      "which barrier Slurm has");
}

Findings find_other_plan(const Recording& world) {
  if (was_started_alone(world)) return {};
  const JobFacts& job = world.job;
  if (!job.world_size || !job.planned_world_size) return not_known("the plan");
  if (*job.planned_world_size != *job.world_size)
    return error("the plan is for " + std::to_string(*job.planned_world_size) + " ranks, and " +
                     std::to_string(*job.world_size) + " were started",
                 "make --devices and --num_nodes agree with mpirun -np or srun --ntasks");
  if (job.nodes && job.planned_nodes && *job.planned_nodes != *job.nodes)
    return error("the plan is for " + std::to_string(*job.planned_nodes) + " nodes, and the ranks are on " +
                     std::to_string(*job.nodes),
                 "make --num_nodes agree with the launcher's");
  return {};
}

Findings find_uneven_ranks(const Recording& world) {
  std::map<std::string, std::vector<std::string>> hosts;
  for (const NodeFacts& node : world.nodes)
    hosts[counted(ranks_of(world, node.node).size(), "rank")].push_back(node.host);
  return unlike(Severity::warning, "", hosts,
                "start as many on each: mpirun --map-by ppr:N:node, srun --ntasks-per-node=N",
                "which ranks run where");
}

Findings find_idle_tasks(const Recording& world) {
  const SlurmAllocation& job = *world.job.allocation;
  const int tasks = job.tasks_per_node * job.nodes;
  if (tasks == 0) return not_known("how many tasks the job was to have");
  if (world_size(world) >= tasks) return {};
  return warning("job " + job.job + " has " + std::to_string(tasks) + " tasks, and " +
                     std::to_string(world_size(world)) + " ranks were started",
                 "srun --ntasks=" + std::to_string(tasks) + " or mpirun -np " + std::to_string(tasks) +
                     "; or ask for fewer tasks");
}

Findings find_idle_nodes(const Recording& world) {
  const int nodes = world.job.nodes.value_or(static_cast<int>(world.nodes.size()));
  if (nodes >= world.job.allocation->nodes) return {};
  return warning("job " + world.job.allocation->job + " has " + std::to_string(world.job.allocation->nodes) +
                     " nodes, and the ranks are on " + std::to_string(nodes),
                 "srun --nodes=" + std::to_string(world.job.allocation->nodes) +
                     ", mpirun --map-by ppr:N:node; or ask for fewer nodes");
}

Findings find_other_tasks_per_node(const Recording& world) {
  const SlurmAllocation& job = *world.job.allocation;
  if (job.tasks_per_node == 0) return not_known("how many tasks each node was to have");
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    const int ranks = static_cast<int>(ranks_of(world, node.node).size());
    collector.judge(ranks > job.tasks_per_node,
                    std::to_string(ranks) + " ranks where the job has " + std::to_string(job.tasks_per_node) +
                        " tasks for each node",
                    node);
  }
  return collector.result(Severity::warning, "srun --ntasks-per-node=N, mpirun --map-by ppr:N:node",
                          "which ranks run where");
}

Findings find_lonely_start(const Recording& world) {
  if (!world.job.allocation || !was_started_alone(world)) return {};
  const SlurmAllocation& job = *world.job.allocation;
  const std::string fix = "start it by srun or mpirun: srun --mpi=pmix cxtrain_mpi ...";
  if (job.nodes > 1)
    return warning("started without srun or mpirun in job " + job.job + ", which has " +
                       std::to_string(job.nodes) + " nodes",
                   fix);
  if (!job.is_here) return note("this shell is on none of the nodes of job " + job.job, fix);
  return {};
}

}  // namespace

std::vector<Check> launch_checks() {
  return {
      {"launch.pmix", "srun started the ranks without PMIx",
       "MPI does not find the other ranks, and each trains alone.", find_missing_pmix},
      {"launch.barrier", "Slurm's barrier does not wait for other nodes",
       "A rank that gets a message while it still starts crashes in MPI_Init, once in some hundred starts.",
       find_barrier_of_one_node},
      {"launch.plan", "The plan and the launcher disagree", "The run is refused at its start.",
       find_other_plan},
      {"launch.uneven", "Nodes have unequal numbers of ranks",
       "Ranks on a fuller node get less of it, and all ranks wait for them.", find_uneven_ranks,
       has_several_nodes},
      {"allocation.ranks", "Fewer ranks than the job has tasks", "A part of the allocation stays idle.",
       find_idle_tasks, was_started_in_job},
      {"allocation.nodes", "Fewer nodes than the job has", "A part of the allocation stays idle.",
       find_idle_nodes, was_started_in_job},
      {"allocation.tasks_per_node", "A node has more ranks than its tasks",
       "The batch system binds tasks to cores and GPUs, and ranks beyond these share them.",
       find_other_tasks_per_node, was_started_in_job},
      {"allocation.alone", "Started alone inside a batch job",
       "One process uses one node, and the other nodes stay idle.", find_lonely_start},
  };
}

}  // namespace cxtrain::doctor
