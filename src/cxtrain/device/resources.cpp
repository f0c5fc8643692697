#include "cxtrain/device/resources.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "cxtrain/device/core_share.h"
#include "cxtrain/device/memory_groups.h"

namespace cxtrain {
namespace {

std::int64_t memory_of_machine(std::string_view entry) {
  return read_kernel_bytes("/proc/meminfo", entry).value_or(std::numeric_limits<std::int64_t>::max());
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

std::optional<std::int64_t> read_kernel_bytes(const char* table, std::string_view entry) {
  std::ifstream file(table);
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == entry && file >> kib) return kib * 1024;
  }
  return std::nullopt;
}

int cores_of_this_process() { return std::max(1, static_cast<int>(cores_of_mask().size())); }

std::int64_t peak_resident_bytes() {
  // VmHWM belongs to this program; getrusage's maximum survives exec and may be that of whoever started it.
  if (const auto peak = read_kernel_bytes("/proc/self/status", "VmHWM:")) return *peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::int64_t proportional_bytes() {
  constexpr const char* kTable = "/proc/self/smaps_rollup";
  const auto own = read_kernel_bytes(kTable, "Pss_Anon:"), shared = read_kernel_bytes(kTable, "Pss_Shmem:");
  // Kernels before 5.4 do not split the size.
  if (own && shared) return *own + *shared;
  return read_kernel_bytes(kTable, "Pss:").value_or(0);
}

std::int64_t data_bytes() { return read_kernel_bytes("/proc/self/status", "VmData:").value_or(0); }

std::int64_t total_memory_bytes() {
  const std::int64_t of_machine = memory_of_machine("MemTotal:");
  return std::min(of_machine, least_limit(limited_memory_groups()).value_or(of_machine));
}

std::int64_t available_memory_bytes() {
  return available_within(memory_of_machine("MemAvailable:"), limited_memory_groups());
}

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
  const auto bytes = [](const char* entry) {
    return static_cast<double>(read_kernel_bytes("/proc/self/status", entry).value_or(0));
  };
  sample.memory_percent = percent(bytes("VmRSS:"), static_cast<double>(machine.totalram) * unit);
  sample.swap_percent = percent(bytes("VmSwap:"), static_cast<double>(machine.totalswap) * unit);
  return sample;
}

}  // namespace cxtrain
