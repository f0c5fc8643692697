#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cxtrain/base/filesystem.h"

/// Two jobs never write into one run's folder. A job that writes there holds a lock on `run.lock`; the system
/// releases the lock when the last process of the job has ended. The file names the job that has the lock, or
/// had the lock last.
namespace cxtrain {

/// In a run's folder.
inline constexpr std::string_view kRunLockFile = "run.lock";

/// Time that a job waits for an earlier job that is ending. Ranks without the other ranks end within that
/// time.
inline constexpr double kRunLockPatience = 15;  // s

/// Takes the lock of a run's folder for this job. Rank 0 calls it before the other ranks join. Waits for
/// `patience` seconds while another job has the lock. Returns null, after a warning, if the file system has
/// no locks, or if an earlier start of this job has the lock (a Slurm job that was requeued), which cannot be
/// alive. Throws ConfigError that names the owner of the lock.
std::unique_ptr<FileLock> take_run_folder(Filesystem& files, const std::string& folder, double patience);

/// Shares the lock that rank 0 has taken, so that the lock lasts as long as any rank. All other ranks call
/// it. Returns null if that is not possible.
std::unique_ptr<FileLock> join_run_folder(Filesystem& files, const std::string& folder);

/// Returns whether a job has the lock of a run's folder now; nothing if the file system cannot say.
std::optional<bool> run_folder_is_locked(Filesystem& files, const std::string& folder);

/// Returns the owner of the lock, or the last owner: "process 12 on n1 (Slurm job 7)"; empty if not known.
std::string owner_of_run_folder(Filesystem& files, const std::string& folder);

/// Returns the process that restarts the owner's job (`LaunchEnvironment::restarter`); empty if none does.
std::string restarter_of(Filesystem& files, const std::string& folder);

}  // namespace cxtrain
