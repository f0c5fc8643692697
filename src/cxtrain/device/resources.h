#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/each_field.h"

/// Processor and memory: what this process has of the machine, and what it takes.
namespace cxtrain {

/// Cores that this process may run on, at least 1: the mask that mpirun or Slurm bound it to.
int cores_of_this_process();

/// The most bytes of main memory that this process has held at once since it started (resident set,
/// high-water mark).
std::int64_t peak_resident_bytes();

/// Bytes of main memory that this process holds now. A page that several processes map counts in parts
/// (proportional set size: `Pss_Anon` and `Pss_Shmem` of /proc/self/smaps_rollup), so the sum over a node's
/// ranks is what the node has given. Pages of files, such as those of libraries, do not count: how many of
/// them fall to this process depends on the other programs of the machine. 0 where the kernel states no size.
/// Takes about 1 ms a GB.
std::int64_t proportional_bytes();

/// Private memory that this process may write to, used or not: what RLIMIT_DATA limits.
std::int64_t data_bytes();

/// Returns the bytes of an entry ("MemTotal:") of a table in /proc that lists sizes in KiB ("/proc/meminfo").
/// Absent if the table has no such entry.
std::optional<std::int64_t> read_kernel_bytes(const char* table, std::string_view entry);

/// A control group with a limit of memory: a Slurm job (`--mem`), a container.
struct MemoryGroup {
  std::int64_t limit = 0;  ///< bytes
  /// Bytes, without those that the kernel can free at once: pages of files, and the kernel's own caches.
  std::int64_t used = 0;
};

/// Returns the lowest limit of these groups; absent if there are no groups. Pure.
std::optional<std::int64_t> least_limit(std::span<const MemoryGroup> groups);

/// Returns the bytes that a process in these groups can still have, of `of_machine` bytes. Pure.
std::int64_t available_within(std::int64_t of_machine, std::span<const MemoryGroup> groups);

/// Returns the control groups with a limit, of those that this process lies in. Versions 1 and 2 of control
/// groups.
std::vector<MemoryGroup> limited_memory_groups();
/// Returns the control groups with a limit that these files describe. `proc_cgroup`: the content of
/// /proc/self/cgroup; `root`: the folder of the control groups.
std::vector<MemoryGroup> limited_memory_groups(const std::string& proc_cgroup, const std::string& root);

/// Main memory of this machine, or the part of it that the control groups of this process allow (a Slurm
/// job's `--mem`, a container's limit).
std::int64_t total_memory_bytes();

/// Main memory that this process can still have without swapping: on this machine, as the kernel estimates
/// it, and within its control groups.
std::int64_t available_memory_bytes();

/// What this process takes of the machine.
struct CpuSample {
  double cpu_percent = 0;     ///< processor time since the sample before; 100 is one core, all the time
  double memory_percent = 0;  ///< resident memory, of the machine's
  double swap_percent = 0;    ///< swapped out, of the machine's swap space; 0 where there is none

  void fields(auto&& field) { CXTRAIN_EACH(field, cpu_percent, memory_percent, swap_percent); }
};

/// Processor time that this process has used, in all its threads, in seconds.
double process_cpu_seconds();

/// Turns readings of the process into samples. Used by one thread.
class CpuLoad {
 public:
  /// `clock` outlives it; the first sample counts from now on.
  explicit CpuLoad(const Clock& clock, double (*cpu_seconds)() = process_cpu_seconds);
  CpuSample sample();

 private:
  const Clock& clock_;
  double (*cpu_seconds_)();
  double last_time_, last_cpu_seconds_;
};

/// Files that a process holds, each counted once: what a start with many ranks asks of a file system.
struct OpenFileCount {
  int libraries = 0;  ///< mapped: the program, its libraries and plugins
  int others = 0;     ///< open, or mapped as data
};

/// This process's, from /proc; devices, pipes and sockets are no files.
OpenFileCount open_file_count();

}  // namespace cxtrain
