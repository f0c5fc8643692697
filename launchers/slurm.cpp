#include "launchers/slurm.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "launchers/mpirun.h"

namespace cxtrain {
namespace {

/// How long Slurm may take to answer, and a node to start a step and say what it has.
constexpr double kAnswerSeconds = 30, kStepSeconds = 120;

int ranks_per_node(const Plan& plan) { return plan.world_size / std::max(1, plan.num_nodes); }

/// Without srun, as in a container, it has none.
bool slurm_has_pmix() {
  const std::vector<std::string> command{"srun", "--mpi=list"};
  try {
    return run_command(command, kAnswerSeconds).output.find("pmix") != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

/// Options of the job as a whole that srun would read from the environment and add to those of this step.
void forget_shape_of_job() {
  for (const char* name :
       {"SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_NTASKS", "SLURM_NPROCS",
        "SLURM_NTASKS_PER_NODE", "SLURM_DISTRIBUTION", "SLURM_ARBITRARY_NODELIST"}) {
    unsetenv(name);
  }
}

/// What a node printed that describes it; srun's own words may stand around it. Empty where there is none.
std::string description_in(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('{')) return line;
  }
  return {};
}

}  // namespace

std::vector<std::string> srun_command(const Plan& plan, const SlurmAllocation& job, const Program& program) {
  const int per_node = ranks_per_node(plan);
  std::vector<std::string> command{"srun", "--mpi=pmix", "--nodes=" + std::to_string(plan.num_nodes),
                                   "--ntasks=" + std::to_string(plan.world_size),
                                   "--ntasks-per-node=" + std::to_string(per_node), "--distribution=block",
                                   // A rank that dies ends the others, which would wait for it.
                                   "--kill-on-bad-exit=1",
                                   // Another step, such as an interactive shell, may hold the job's cores.
                                   "--overlap",
                                   // Ctrl-C goes to the ranks, rather than have srun tell how they are.
                                   "--disable-status"};
  if (job.cpus_per_node >= per_node) {
    command.push_back("--cpus-per-task=" + std::to_string(job.cpus_per_node / per_node));
  } else if (job.cpus_per_node > 0) {
    command.emplace_back("--overcommit");
  }
  const std::vector<std::string> words = words_of(program);
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

void become_step(const Plan& plan, const Program& program) {
  const std::optional<SlurmAllocation> job = slurm_allocation(slurm_environment());
  if (!job)
    throw CommunicationError("this plan is one for a Slurm job, and this process is in none",
                             MessageCode::launch_failed);
  if (!slurm_has_pmix()) become_mpirun(plan.world_size, ranks_per_node(plan), program);
  forget_shape_of_job();
  // Slurm's other fence does not wait for other nodes (docs/clusters.md).
  setenv("SLURM_PMIX_FENCE", "ring", /*overwrite=*/0);
  // As mpirun sees to it where there are more ranks than cores.
  if (job->cpus_per_node > 0 && ranks_per_node(plan) > job->cpus_per_node)
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*overwrite=*/1);
  become_command(srun_command(plan, *job, program));
}

Hardware hardware_of_allocation(const Program& program) {
  const std::vector<std::string> command{"srun",    "--mpi=none", "--nodes=1", "--ntasks=1", "--overlap",
                                         "--quiet", program.path, "info",      "--hardware", "--json"};
  const CommandEnd end = run_command(command, kStepSeconds);
  const std::string description = description_in(end.output);
  if (end.status != 0 || description.empty()) {
    throw CommunicationError("srun could not list the hardware of the Slurm job: it ended with " +
                                 std::to_string(end.status) + ": " + shortened(end.output, 300) + "; is " +
                                 program.path + " there on all of them?",
                             MessageCode::launch_failed);
  }
  Hardware hardware = parse_hardware(description, "what a node of the Slurm job says");
  // What this process knows of the job: among others that it is on none of its nodes.
  std::erase_if(hardware.env, [](const auto& variable) { return variable.first.starts_with("SLURM"); });
  hardware.env.merge(slurm_environment());
  return hardware;
}

}  // namespace cxtrain
