#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace cxtrain {

class ChildProcess;

/// Detects an mpirun that hangs after its ranks have ended: it leaves them as zombies. The mpirun of Open MPI
/// 4 does so now and then when a rank was killed while it started; the threads of PMIx then wait for each
/// other.
class UnreapedChildren {
 public:
  explicit UnreapedChildren(pid_t parent) : parent_(parent) {}

  /// Returns whether the parent has children, and all of them have been dead for ten seconds. A parent that
  /// is stopped cannot know. Called about once a second.
  bool too_long();

 private:
  using Monotonic = std::chrono::steady_clock;

  const pid_t parent_;
  std::optional<Monotonic::time_point> since_;  ///< all children have been dead
};

/// Kills an mpirun whose children have been dead for too long, and logs that.
void end_stuck(const ChildProcess& mpirun);

}  // namespace cxtrain
