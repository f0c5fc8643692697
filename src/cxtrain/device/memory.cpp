#include "cxtrain/device/memory.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace cxtrain {

std::int64_t peak_resident_bytes() {
  // VmHWM belongs to this program; getrusage's maximum survives exec and may be that of whoever started it.
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace cxtrain
