#pragma once

#include <map>
#include <optional>
#include <string>

#include "cxtrain/base/each_field.h"

/// The Slurm job that a process was started in, by the words of its environment.
namespace cxtrain {

struct SlurmAllocation {
  std::string job = {};  ///< its number
  int nodes = 1;
  int tasks_per_node = 0;  ///< how many tasks the job was to have on each node; 0: not said
  int cpus_per_node = 0;   ///< the job's on the node where it has fewest; 0: not said
  /// Whether this process runs on one of the job's nodes. The shell that salloc starts may be on another
  /// machine, whose hardware says nothing about the job's.
  bool is_here = true;

  void fields(auto&& field) { CXTRAIN_EACH(field, job, nodes, tasks_per_node, cpus_per_node, is_here); }
};

/// What this process's environment has of the variables that `slurm_allocation` reads.
std::map<std::string, std::string> slurm_environment();

/// The job that these variables describe; absent outside of one.
std::optional<SlurmAllocation> slurm_allocation(const std::map<std::string, std::string>& environment);

}  // namespace cxtrain
