#pragma once

#include "cxtrain/base/clock.h"

namespace cxtrain {

/// What this process takes of the machine.
struct CpuSample {
  double cpu_percent = 0;     ///< processor time since the sample before; 100 is one core, all the time
  double memory_percent = 0;  ///< resident memory, of the machine's
  double swap_percent = 0;    ///< swapped out, of the machine's swap space; 0 where there is none
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
