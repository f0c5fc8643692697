#include "cxtrain/report/run_lock.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/each_field.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/launch_environment.h"

namespace cxtrain {
namespace {

std::string lock_of(const std::string& folder) { return folder + "/" + std::string(kRunLockFile); }

/// The content of `run.lock`.
struct LockOwner {
  std::string host, process, slurm_job, slurm_restart, restarter;

  void fields(auto&& field) { CXTRAIN_EACH(field, host, process, slurm_job, slurm_restart, restarter); }
};

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// This job, for those who find its folder taken.
LockOwner own_name() {
  return {.host = hostname(),
          .process = std::to_string(getpid()),
          .slurm_job = variable("SLURM_JOB_ID"),
          .slurm_restart = variable("SLURM_RESTART_COUNT"),
          .restarter = read_launch_environment().restarter};
}

/// What the lock's file says; empty where it says nothing that can be read.
LockOwner owner_of(Filesystem& files, const std::string& folder) {
  constexpr std::uint64_t kMaxLockBytes = std::uint64_t{64} << 10;
  constexpr std::size_t kMaxOfText = 200;  // which somebody else may have written
  try {
    if (!files.status(lock_of(folder))) return {};
    auto owner =
        parse_struct<LockOwner>(read_whole_file(files, lock_of(folder), kMaxLockBytes)).value_or(LockOwner());
    owner.fields([](const char*, std::string& text) { text = shortened(text, kMaxOfText); });
    return owner;
  } catch (const FileError&) {
    return {};
  }
}

/// In the same file: a rename would put another in its place. Without it the lock holds as well.
void write_name(Filesystem& files, const std::string& folder, const LockOwner& own) {
  try {
    const auto file = files.create(lock_of(folder));
    file->write(text_of_json(json_of(own)) + "\n");
    file->close();
  } catch (const FileError&) {
    // What it says is for messages, and for who starts the job again.
  }
}

/// Slurm starts a job again only when it has ended everywhere; a file server may not know yet.
bool is_earlier_self(const LockOwner& owner, const LockOwner& own) {
  return !own.slurm_job.empty() && own.slurm_job == owner.slurm_job &&
         own.slurm_restart != owner.slurm_restart;
}

std::string describe(const LockOwner& owner) {
  if (owner.host.empty()) return "another job";
  return "process " + owner.process + " on " + owner.host +
         (owner.slurm_job.empty() ? "" : " (Slurm job " + owner.slurm_job + ")");
}

}  // namespace

std::unique_ptr<FileLock> take_run_folder(Filesystem& files, const std::string& folder, double patience) {
  const LockOwner own = own_name();
  const SteadyClock clock;
  try {
    auto lock = files.try_lock(lock_of(folder), Filesystem::LockKind::exclusive);
    for (const double end = clock.now() + patience; !lock && clock.now() < end;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      lock = files.try_lock(lock_of(folder), Filesystem::LockKind::exclusive);
    }
    if (!lock) {
      const LockOwner owner = owner_of(files, folder);
      if (is_earlier_self(owner, own)) {
        log_warning("the lock on '" + folder + "' is that of this Slurm job before it was requeued");
        return nullptr;
      }
      throw ConfigError(
          "", "the run's folder '" + folder + "' is in use: " + describe(owner) + " writes there",
          "wait for its end or stop it; or start a run of its own, without --ckpt_path last or auto",
          MessageCode::run_in_use);
    }
    write_name(files, folder, own);
    if (!lock->share()) return take_run_folder(files, folder, 0);
    return lock;
  } catch (const FileError& error) {
    log_warning("another job that writes into the same folder would not be noticed: " + message_of(error));
    return nullptr;
  }
}

std::unique_ptr<FileLock> join_run_folder(Filesystem& files, const std::string& folder) {
  try {
    return files.try_lock(lock_of(folder), Filesystem::LockKind::shared);
  } catch (const FileError&) {
    return nullptr;  // rank 0 has said so
  }
}

std::optional<bool> run_folder_is_locked(Filesystem& files, const std::string& folder) {
  try {
    if (!files.status(lock_of(folder))) return false;
    return files.try_lock(lock_of(folder), Filesystem::LockKind::exclusive) == nullptr;
  } catch (const FileError&) {
    return std::nullopt;
  }
}

std::string owner_of_run_folder(Filesystem& files, const std::string& folder) {
  const LockOwner owner = owner_of(files, folder);
  return owner.host.empty() ? std::string() : describe(owner);
}

std::string restarter_of(Filesystem& files, const std::string& folder) {
  return owner_of(files, folder).restarter;
}

}  // namespace cxtrain
