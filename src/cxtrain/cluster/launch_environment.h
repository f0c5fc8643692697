#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "cxtrain/base/field_types.h"

/// Facts about the launch from this process's environment, for the time before MPI has better ones.
namespace cxtrain {

/// The launcher of this world's ranks. `spawn`: a cxtrain process that watches over the ranks (launchers/).
enum class LaunchedBy { alone, mpirun, srun, spawn };
template <>
struct ChoiceOf<LaunchedBy> {
  static constexpr std::array<std::string_view, 4> words{"alone", "mpirun", "srun", "spawn"};
};

/// Set for ranks that a cxtrain process has spawned: the address at which that process listens for the ranks.
inline constexpr const char* kSupervisorVariable = "CXTRAIN_SUPERVISOR";

/// Set for ranks of an mpirun that a cxtrain process has started (launchers/mpirun.h): the address at which
/// that process listens for the ranks.
inline constexpr const char* kStarterVariable = "CXTRAIN_STARTER";

/// Set for all processes of a job with a restarter, which starts the job again when it fails
/// (launchers/restarts.h): the restarter's name. A run's folder states this name as its owner's. The
/// restarter listens under this name for the ranks of its node.
inline constexpr const char* kRestarterVariable = "CXTRAIN_RESTARTER";

/// Returns the launcher of this process. Reads the environment, before MPI starts.
LaunchedBy detect_launcher();

struct LaunchEnvironment {
  int rank = 0;
  int size = 0;                ///< ranks of the job; 0: unknown
  int local_rank = -1;         ///< among the ranks of this node; -1: unknown
  int local_size = 0;          ///< ranks on this node; 0: unknown
  std::string job;             ///< equal for the ranks of one job on one node, different for any other job
  std::string restarter = {};  ///< name of the restarter; empty: none
};

LaunchEnvironment read_launch_environment();

/// Returns the seconds until the batch system ends the job (Slurm's SLURM_JOB_END_TIME); absent if the
/// environment does not have it. Uses the wall clock: call it once, then count with a steady clock.
std::optional<double> seconds_to_job_end();

}  // namespace cxtrain
