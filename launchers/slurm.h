#pragma once

#include <string>
#include <vector>

#include "cxtrain/cluster/slurm_allocation.h"
#include "cxtrain/device/hardware.h"
#include "launchers/launcher.h"

/// Ranks on the nodes of the Slurm job that this process was started in, by a step of that job.
namespace cxtrain {

/// The command line that starts the plan's ranks on the job's nodes: a block of them on each, which share the
/// job's cores there.
std::vector<std::string> srun_command(const Plan& plan, const SlurmAllocation& job, const Program& program);

/// Replaces this process by srun, or, where Slurm has no PMIx to tell the ranks of each other, by mpirun,
/// which finds the job's nodes as well. Throws CommunicationError where neither can be started.
[[noreturn]] void become_step(const Plan& plan, const Program& program);

/// What a node of the job has, for a process that is on none of them: asked by running the program there.
/// Throws CommunicationError with what Slurm says where it does not answer.
Hardware hardware_of_allocation(const Program& program);

}  // namespace cxtrain
