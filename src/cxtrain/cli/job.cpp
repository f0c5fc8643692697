#include "cxtrain/cli/job.h"

#include <csignal>
#include <filesystem>
#include <iostream>

#include "cxtrain/base/crash_report.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/end_job.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/slurm_allocation.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "launchers/slurm.h"

namespace cxtrain {
namespace {

/// Some libraries cannot work without one, and say so in words of their own.
void require_current_folder() {
  std::error_code failed;
  static_cast<void>(std::filesystem::current_path(failed));
  if (failed) {
    throw ConfigError("", "the current folder cannot be used: " + failed.message(),
                      "change to one that exists", MessageCode::file_failed);
  }
}

int prepare_process() {
  require_current_folder();
  const int rank = read_launch_environment().rank;
  report_crashes(rank);  // before MPI starts, which has handlers of its own
  return rank;
}

}  // namespace

Job::Job(int argc, char** argv, const Settings& settings)
    : program_(this_program(argc, argv)),
      timeout_seconds_(settings.timeout_seconds),
      rank_(prepare_process()),
      log_(rank_, settings.quiet),
      supervisor_(rank_),
      world_(make_world(settings.timeout_seconds)) {
  world_->process_end().report = [this](int status) { supervisor_.report(status); };
}

int Job::run(const std::function<int()>& work, const std::function<std::string()>& where) {
  int status = 0;
  try {
    status = work();
  } catch (const AgreedError& error) {
    if (world_->is_root()) log_error(printed(error));
    status = static_cast<int>(error.code());
  } catch (const std::exception& error) {
    status = static_cast<int>(code_of(error));
    end_job(*world_, where(), code_of(error), printed(error));
  } catch (...) {
    status = static_cast<int>(ExitCode::failure);
    end_job(*world_, where(), ExitCode::failure, message_of_other_exception());
  }
  // As soon as one rank has ended with a status that is not 0, srun --kill-on-bad-exit has the others end,
  // too: this one is about to, and with its own status.
  std::signal(SIGTERM, SIG_IGN);
  supervisor_.report(status);
  return status;
}

Hardware Job::hardware() {
  if (world_->facts().launched_by == LaunchedBy::alone) {
    const std::optional<SlurmAllocation> slurm = slurm_allocation(slurm_environment());
    if (slurm && !slurm->is_here) return hardware_of_allocation(program_);
  }
  return gather_hardware(*world_);
}

int Job::start_ranks(const Plan& plan) { return cxtrain::start_ranks(plan, program_, timeout_seconds_); }

int run_to_status(const std::function<int()>& run) noexcept {
  try {
    set_up_process();
    keep_freed_memory();
    return run();
  } catch (const std::exception& error) {
    std::cerr << "error: " << printable(shortened(printed(error))) << '\n';
    return static_cast<int>(code_of(error));
  }
}

}  // namespace cxtrain
