#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/device/hardware.h"
#include "launchers/launcher.h"
#include "launchers/supervisor.h"

namespace cxtrain {

/// What every program does around its work: the process set up, the log on the console, this rank's place in
/// the MPI job, the ranks started where the process was started alone, and errors reported once and turned
/// into the exit status. One a process, made first thing in main.
class Job {
 public:
  struct Settings {
    double timeout_seconds = 1800;  ///< how long the ranks may wait for each other
    bool quiet = false;             ///< warnings and errors only on the console
  };
  /// Throws ConfigError or CommunicationError.
  Job(int argc, char** argv, const Settings& settings);

  World& world() { return *world_; }
  Log& log() { return log_; }
  /// What this process runs, and the ranks that it starts.
  const Program& program() const { return program_; }

  /// Runs `work`, whose result is the exit status. An error that all ranks have is printed once; one of a
  /// single rank, with what `where` says of it, ends all of them.
  int run(const std::function<int()>& work, const std::function<std::string()>& where);

  /// What the ranks that are there have, or, in a Slurm job that this process is not on a node of, what its
  /// nodes have. Collective.
  Hardware hardware();

  /// Starts the plan's ranks, each of which runs this program anew, and returns their exit status.
  int start_ranks(const Plan& plan);

 private:
  Program program_;
  double timeout_seconds_;
  int rank_;
  Log log_;
  SupervisorLink supervisor_;  // before MPI starts: a rank that dies there would be missed by nobody
  std::unique_ptr<World> world_;
};

/// The exit status of a program: `run`'s, or that of an error before there was a job to report it.
int run_to_status(const std::function<int()>& run) noexcept;

}  // namespace cxtrain
