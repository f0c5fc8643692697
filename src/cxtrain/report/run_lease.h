#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cxtrain/base/filesystem.h"

/// Two jobs never write into one run's folder: whoever writes there holds a lock on its `run.lock`, which the
/// system lets go of when the last process of the job is gone. The file says who holds it, or held it last.
namespace cxtrain {

/// In a run's folder.
inline constexpr std::string_view kLeaseFile = "run.lock";

/// How long a job waits for one before it that is ending: ranks that are left alone end within that time.
inline constexpr double kLeasePatience = 15;  // s

/// Takes a run's folder for this job; for rank 0, before the others join it. Waits for `patience` seconds
/// while another job has it. Null, after a warning, where the file system has no locks, or where the holder
/// is an earlier incarnation of this job (a Slurm job that was requeued), which can't be alive. Throws
/// ConfigError naming the holder.
std::unique_ptr<FileLock> take_run_folder(Filesystem& files, const std::string& folder, double patience);

/// Joins the job's hold on its folder, so that it lasts as long as any rank; for the ranks that have not
/// taken it. Null where that is not possible.
std::unique_ptr<FileLock> join_run_folder(Filesystem& files, const std::string& folder);

/// Whether a job holds a run's folder now; absent: the file system does not tell. For who only looks.
std::optional<bool> run_folder_is_held(Filesystem& files, const std::string& folder);

/// Who holds a run's folder, or held it last, in words: "process 12 on n1 (Slurm job 7)"; empty: not known.
std::string holder_of_run_folder(Filesystem& files, const std::string& folder);

/// Who starts the job again that holds a run's folder, or held it last (`LaunchEnvironment::restarter`);
/// empty: nobody.
std::string restarter_of(Filesystem& files, const std::string& folder);

}  // namespace cxtrain
