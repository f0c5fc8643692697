#include "cxtrain/device/memory.h"

#include <sys/resource.h>

#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace cxtrain {

namespace {

/// The entry of one of the kernel's tables of sizes in KiB.
std::optional<std::int64_t> read_bytes(const char* table, std::string_view entry) {
  std::ifstream file(table);
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == entry && file >> kib) return kib * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t peak_resident_bytes() {
  // VmHWM belongs to this program; getrusage's maximum survives exec and may be that of whoever started it.
  if (const auto peak = read_bytes("/proc/self/status", "VmHWM:")) return *peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::int64_t data_bytes() { return read_bytes("/proc/self/status", "VmData:").value_or(0); }

std::int64_t total_memory_bytes() {
  return read_bytes("/proc/meminfo", "MemTotal:").value_or(std::numeric_limits<std::int64_t>::max());
}

std::int64_t available_memory_bytes() {
  return read_bytes("/proc/meminfo", "MemAvailable:").value_or(std::numeric_limits<std::int64_t>::max());
}

}  // namespace cxtrain
