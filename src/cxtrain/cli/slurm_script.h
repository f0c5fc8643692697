#pragma once

#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/device/hardware.h"

/// `cxtrain_mpi slurm-script`: a batch script for Slurm that trains, saves before it loses its nodes, is
/// requeued and goes on.
namespace cxtrain {

/// The subcommand.
inline constexpr const char* kSlurmScript = "slurm-script";

/// Ranks of the job on each node.
int ranks_per_node(const BatchJobOptions& job);

/// Appends what no script could be written for: numbers that are too small, words with which sbatch would
/// read another option, or several, and signals by which the ranks would not save in time.
void check_batch_job(const Options& options, std::vector<Problem>& problems);

/// The job's world and what its nodes are known to have, to plan for: GPUs that nothing more is known of.
WorldFacts world_of(const BatchJobOptions& job);
Hardware hardware_of(const BatchJobOptions& job);

/// The options of `fit` among the words after `slurm-script`, each as one word for a shell's command line,
/// without those that the script sets itself where the user's would be in their way.
std::vector<std::string> options_of_fit(std::span<const char* const> args);

/// The script, for a job that `check_batch_job` takes. `program`: what the ranks run; `fit`:
/// `options_of_fit`.
std::string slurm_script(const Options& options, const std::string& program,
                         std::span<const std::string> fit);

/// The script of a job that measures the trainings that a scaling study has on `job.nodes` nodes, and are
/// missing. `study`: the study's folder.
std::string study_script(const BatchJobOptions& job, const std::string& program, const std::string& study);

}  // namespace cxtrain
