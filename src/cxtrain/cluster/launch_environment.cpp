#include "cxtrain/cluster/launch_environment.h"

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <utility>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/number_ranges.h"

namespace cxtrain {
namespace {

std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) return value;
  }
  return {};
}

int number(const std::string& text, int otherwise) {
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

/// A rank counts beside the world that it is of. A variable that something has left behind would otherwise
/// make a process that runs alone keep its word for a rank 0 that is not there.
int rank_of_world() {
  constexpr std::pair<const char*, const char*> kRankAndWorld[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMIX_RANK", "PMIX_NAMESPACE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"SLURM_PROCID", "SLURM_STEP_ID"}};
  for (const auto& [rank, world] : kRankAndWorld) {
    if (is_set(rank) && is_set(world)) return number(std::getenv(rank), 0);
  }
  return 0;
}

}  // namespace

LaunchedBy detect_launcher() {
  if (is_set(kSupervisorVariable) && is_set("OMPI_COMM_WORLD_SIZE")) return LaunchedBy::spawn;
  // Open MPI's mpirun sets the first, MPICH's the second. srun sets its own beside PMIx's, but inside
  // `sbatch` the SLURM_* ones describe the batch step and say nothing about this process.
  if (is_set("OMPI_COMM_WORLD_SIZE") || (is_set("PMI_SIZE") && is_set("PMI_RANK"))) return LaunchedBy::mpirun;
  if (is_set("PMIX_RANK") && is_set("PMIX_NAMESPACE"))
    return is_set("SLURM_STEP_ID") ? LaunchedBy::srun : LaunchedBy::mpirun;
  return LaunchedBy::alone;
}

LaunchEnvironment read_launch_environment() {
  // In this order: Open MPI's own, PMIx's, MPICH's, Slurm's.
  LaunchEnvironment found;
  found.rank = rank_of_world();
  found.size = number(first_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}), 0);
  found.local_rank = number(first_of({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}), -1);
  found.local_size = number(first_of({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}), 0);
  // The name alone may come again (Open MPI makes it from 16 bits of a hash); the server's address does not.
  std::string job =
      first_of({"PMIX_NAMESPACE"}) + first_of({"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                               "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"});
  if (job.empty()) job = first_of({"SLURM_JOB_ID"}) + "." + first_of({"SLURM_STEP_ID"});
  if (job == ".") job = "parent " + std::to_string(getppid());  // the node's part of the launcher
  found.restarter = first_of({kRestarterVariable});
  found.job = std::to_string(geteuid()) + "-" + std::to_string(std::hash<std::string>{}(job));
  return found;
}

std::optional<double> seconds_to_job_end() {
  const auto end = number_of_digits(first_of({"SLURM_JOB_END_TIME"}));  // seconds since 1970
  if (!end) return std::nullopt;
  return static_cast<double>(*end) - seconds_since_1970();
}

}  // namespace cxtrain
