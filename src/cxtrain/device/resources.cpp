#include "cxtrain/device/resources.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "cxtrain/base/kernel_files.h"
#include "cxtrain/device/core_share.h"

namespace cxtrain {
namespace {

std::int64_t memory_of_machine(std::string_view entry) {
  return read_kernel_bytes("/proc/meminfo", entry).value_or(std::numeric_limits<std::int64_t>::max());
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// The names of a group's files, and of the entries of its statistics for memory that the kernel can free.
struct GroupFiles {
  const char *limit, *used;
  std::array<std::string_view, 3> freeable;
};
constexpr GroupFiles kVersion1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kVersion2{
    "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};

/// The sum of entries of a table of names and numbers.
std::int64_t sum_of(const std::string& table, std::span<const std::string_view> entries) {
  std::int64_t sum = 0;
  std::istringstream words(table);
  std::string word;
  for (std::int64_t number = 0; words >> word >> number;) {
    if (std::ranges::find(entries, word) != entries.end()) sum += number;
  }
  return sum;
}

/// Adds a group, and those that it lies in, as far as they have a limit.
void add_groups(const std::string& root, std::string group, const GroupFiles& files,
                std::vector<MemoryGroup>& found) {
  // Version 1 shows a larger number for a group without a limit.
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  while (true) {
    const std::string folder = root + group + "/";
    const auto limit = kernel_number(folder + files.limit);
    if (limit && *limit < kNoLimit) {
      const std::int64_t used = kernel_number(folder + files.used).value_or(0);
      // The statistics are older than the number of used bytes.
      const std::int64_t kept = used - sum_of(kernel_text(folder + "memory.stat"), files.freeable);
      found.push_back({*limit, std::max<std::int64_t>(0, kept)});
    }
    if (group.empty() || group == "/") return;
    group.erase(group.rfind('/'));
  }
}

/// Not what only looks like a file: "/dev/shm" is memory, "/memfd:..." has no name on any disk.
bool is_file(const std::string& path) {
  return path.starts_with('/') && !path.starts_with("/dev/") && !path.starts_with("/proc/") &&
         !path.starts_with("/sys/") && !path.starts_with("/memfd:") && !path.starts_with("/SYSV");
}

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

std::optional<std::int64_t> least_limit(std::span<const MemoryGroup> groups) {
  std::optional<std::int64_t> least;
  for (const MemoryGroup& group : groups) least = std::min(least.value_or(group.limit), group.limit);
  return least;
}

std::int64_t available_within(std::int64_t of_machine, std::span<const MemoryGroup> groups) {
  std::int64_t available = of_machine;
  for (const MemoryGroup& group : groups)
    available = std::min(available, std::max<std::int64_t>(0, group.limit - group.used));
  return available;
}

std::vector<MemoryGroup> limited_memory_groups() {
  return limited_memory_groups(kernel_text("/proc/self/cgroup"), "/sys/fs/cgroup");
}

std::vector<MemoryGroup> limited_memory_groups(const std::string& proc_cgroup, const std::string& root) {
  std::vector<MemoryGroup> found;
  std::istringstream lines(proc_cgroup);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos || line.substr(second + 1, 1) != "/")
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    if (controllers.empty()) add_groups(root, group, kVersion2, found);
    if (controllers == "memory") add_groups(root + "/memory", group, kVersion1, found);
  }
  return found;
}

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

OpenFileCount open_file_count() {
  std::set<std::string> executable, all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string range, permissions, offset, device, inode, path;
    fields >> range >> permissions >> offset >> device >> inode >> std::ws;
    std::getline(fields, path);
    if (!is_file(path)) continue;
    all.insert(path);
    if (permissions.find('x') != std::string::npos) executable.insert(path);
  }
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    const std::string path = std::filesystem::read_symlink(entry.path(), failed);
    if (!failed && is_file(path)) all.insert(path);
  }
  const int libraries = static_cast<int>(executable.size());
  return {libraries, static_cast<int>(all.size()) - libraries};
}

}  // namespace cxtrain
