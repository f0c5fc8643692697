#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "launchers/child_process.h"

namespace cxtrain {

/// Returns whether the process is Open MPI's mpirun, by its program's name ("mpirun.openmpi" on Debian):
/// prterun in Open MPI 5.
bool is_mpirun(pid_t process);

/// Kills an mpirun that hangs after its ranks have ended: it leaves the ranks as zombies. The mpirun of Open
/// MPI 4 does so now and then when a rank was killed while it started; the threads of PMIx then wait for each
/// other.
class UnreapedChildren {
 public:
  /// `parent`: an mpirun, or what was started as one; outlives the object.
  explicit UnreapedChildren(const ChildProcess& parent) : parent_(parent) {}

  /// Kills the process with its group, and logs an error, if it has children, and all of them have been dead
  /// for ten seconds. A process that is stopped cannot reap its children, and stays. Called about once a
  /// second while the process runs.
  void kill_stuck_parent();

 private:
  using Monotonic = std::chrono::steady_clock;

  const ChildProcess& parent_;
  std::optional<Monotonic::time_point> since_;  ///< all children have been dead
};

}  // namespace cxtrain
