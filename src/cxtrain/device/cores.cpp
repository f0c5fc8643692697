#include "cxtrain/device/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace cxtrain {

int cores_of_this_process() {
  // The mask that mpirun or Slurm bound the process to; a fixed-size set fails on machines beyond 1,024 CPUs.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace cxtrain
