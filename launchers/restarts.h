#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launchers/launcher.h"
#include "launchers/restart_policy.h"

namespace cxtrain {

/// What a job has left that a next one can go on from.
struct RestartPoint {
  std::int64_t step = -1;      ///< of the newest checkpoint; -1: there is none
  std::string run;             ///< the folder of the run; empty: it has not made one
  std::string before;          ///< the checkpoint before the newest; empty: there is none
  std::string unreadable;      ///< why the checkpoints cannot be read now; empty: they can
  double trained_seconds = 0;  ///< that are in what the run has ended with; 0: it has not ended by itself
  std::int64_t samples = 0;    ///< that all ranks together take at a time; 0: not known
};

/// What is started next.
struct NextJob {
  std::string from = {};            ///< a checkpoint, or a run's folder; empty: as the user said
  int ranks = 1;                    ///< that it has
  std::optional<int> without = {};  ///< the rank of the job before it that is left out
  std::int64_t samples = 0;         ///< that its ranks together take at a time; 0: as the user said
};

/// How a job is started and started again.
struct RestartPlan {
  RestartPolicy::Limits limits;
  int requeue_signal = 0;  ///< asks the job to end, as SIGTERM does; 0: none
  /// Whether srun starts the ranks. It kills them when it gets SIGTERM, and passes the requeue signal on.
  bool by_srun = false;
  /// Returns what jobs of this restarter have left. Called when no process of a job lives. `tries`: how often
  /// a disk that fails is read, at least once.
  std::function<RestartPoint(const std::string& restarter, int tries)> look;
  std::function<Program(const NextJob& next)> program;
};

/// Runs the job in processes of its own, and starts it again when it fails, as RestartPolicy decides. Passes
/// signals on to it. Returns the exit status of the last one, or `do_not_requeue`. Make no threads before:
/// they would get the signals. Throws CommunicationError where no process can be started.
int run_with_restarts(const RestartPlan& plan);

}  // namespace cxtrain
