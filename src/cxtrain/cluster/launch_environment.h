#pragma once

#include <optional>
#include <string>
#include <string_view>

/// What the launcher of this process says in its environment, for the time before MPI says it better.
namespace cxtrain {

/// Who started the ranks of this world; `spawn`: a cxtrain process that watches over them (launchers/).
enum class LaunchedBy { alone, mpirun, srun, spawn };
std::string_view to_string(LaunchedBy launcher);

/// Set for ranks that a cxtrain process has spawned: where it listens for them.
inline constexpr const char* kSupervisorVariable = "CXTRAIN_SUPERVISOR";

/// Set for ranks whose mpirun a cxtrain process has started (launchers/mpirun.h): where it listens for them.
inline constexpr const char* kStarterVariable = "CXTRAIN_STARTER";

/// Set for all processes of a job that is started again when it fails (launchers/restarts.h): the name of who
/// does so, by which a run's folder says whose it is, and under which it listens for the ranks of its node.
inline constexpr const char* kRestarterVariable = "CXTRAIN_RESTARTER";

/// Who started this process, read from the environment before MPI starts.
LaunchedBy detect_launcher();

struct LaunchEnvironment {
  int rank = 0;
  int size = 0;                ///< ranks of the job; 0: not said
  int local_rank = -1;         ///< among the ranks of this node; -1: not said
  int local_size = 0;          ///< ranks on this node; 0: not said
  std::string job;             ///< the same for the ranks of one job on one node, another for every other job
  std::string restarter = {};  ///< who starts the job again when it fails; empty: nobody
};

LaunchEnvironment read_launch_environment();

/// How many seconds from now the batch system ends the job (Slurm's SLURM_JOB_END_TIME); absent where it does
/// not say. By the clock on the wall, so ask once, and count on by a steady one.
std::optional<double> seconds_to_job_end();

}  // namespace cxtrain
