#include "cxtrain/device/cpu_load.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace cxtrain {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// A line of /proc/self/status ("VmRSS:  1234 kB") in bytes; 0 where the kernel has none.
double status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == name + ":" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

CpuLoad::CpuLoad(const Clock& clock, double (*cpu_seconds)())
    : clock_(clock), cpu_seconds_(cpu_seconds), last_time_(clock.now()), last_cpu_seconds_(cpu_seconds()) {}

CpuSample CpuLoad::sample() {
  const double time = clock_.now(), used = cpu_seconds_();
  CpuSample sample;
  sample.cpu_percent = percent(used - last_cpu_seconds_, time - last_time_);
  last_time_ = time;
  last_cpu_seconds_ = used;
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return sample;
  const auto unit = static_cast<double>(machine.mem_unit);
  sample.memory_percent = percent(status_bytes("VmRSS"), static_cast<double>(machine.totalram) * unit);
  sample.swap_percent = percent(status_bytes("VmSwap"), static_cast<double>(machine.totalswap) * unit);
  return sample;
}

}  // namespace cxtrain
