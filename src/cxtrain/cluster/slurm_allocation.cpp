#include "cxtrain/cluster/slurm_allocation.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "cxtrain/base/number_ranges.h"

namespace cxtrain {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr const char *kJob = "SLURM_JOB_ID", *kNodes = "SLURM_JOB_NUM_NODES", *kTasks = "SLURM_NTASKS",
                     *kTasksPerNode = "SLURM_NTASKS_PER_NODE", *kCpus = "SLURM_JOB_CPUS_PER_NODE",
                     *kHere = "SLURMD_NODENAME";

int count_in(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return 0;
  std::string_view text = found->second;
  return std::max(0, take_number(text));
}

/// The least number of a list as Slurm writes it, a count for each node: "72(x2),36" -> 36.
int least_of(std::string_view list) {
  int least = std::numeric_limits<int>::max();
  while (!list.empty()) {
    least = std::min(least, std::max(0, take_number(list)));
    const std::size_t comma = list.find(',');
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return least == std::numeric_limits<int>::max() ? 0 : least;
}

}  // namespace

Environment slurm_environment() {
  Environment found;
  for (const char* name : {kJob, kNodes, kTasks, kTasksPerNode, kCpus, kHere}) {
    if (const char* value = std::getenv(name)) found[name] = value;
  }
  return found;
}

std::optional<SlurmAllocation> slurm_allocation(const Environment& environment) {
  const auto job = environment.find(kJob);
  if (job == environment.end() || !number_of_digits(job->second)) return std::nullopt;
  SlurmAllocation allocation;
  allocation.job = job->second;
  allocation.nodes = std::max(1, count_in(environment, kNodes));
  allocation.tasks_per_node = count_in(environment, kTasksPerNode);
  // Only the number of all tasks was asked for.
  const int tasks = count_in(environment, kTasks);
  if (allocation.tasks_per_node == 0 && tasks % allocation.nodes == 0)
    allocation.tasks_per_node = tasks / allocation.nodes;
  if (const auto cpus = environment.find(kCpus); cpus != environment.end())
    allocation.cpus_per_node = least_of(cpus->second);
  allocation.is_here = environment.contains(kHere);
  return allocation;
}

}  // namespace cxtrain
