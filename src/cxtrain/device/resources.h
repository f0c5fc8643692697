#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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

}  // namespace cxtrain
