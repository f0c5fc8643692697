#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "cxtrain/device/core_share.h"
#include "cxtrain/device/memory_groups.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/doctor/probe.h"

namespace cxtrain::doctor {
namespace {

/// A small file of the kernel's; empty where it is not there.
std::string kernel_text(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..." -> "580.65.06".
std::string driver_version_in(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  for (std::string word; words >> word;) {
    const bool number = word.find_first_not_of("0123456789.") == std::string::npos;
    if (number && word.find('.') != std::string::npos) return word;
  }
  return "";
}

}  // namespace

Room room_of(const std::string& path) {
  struct statvfs status {};
  if (statvfs(path.c_str(), &status) != 0) return {};
  const auto bytes = [&](fsblkcnt_t blocks) {
    return static_cast<std::int64_t>(std::min<std::uint64_t>(INT64_MAX, blocks * status.f_frsize));
  };
  return {bytes(status.f_blocks), bytes(status.f_bavail)};
}

void probe_machine(NodeFacts& facts) {
  facts.boot_id = machine_id();
  utsname system{};
  if (uname(&system) == 0) facts.kernel = system.release;
  if (const int cores = online_cores(); cores > 0) facts.cores = cores;
  constexpr const char* kTable = "/proc/meminfo";
  facts.memory_total = read_kernel_bytes(kTable, "MemTotal:");
  facts.memory_available = read_kernel_bytes(kTable, "MemAvailable:");
  facts.memory_limit = least_limit(limited_memory_groups());
  facts.swap_total = read_kernel_bytes(kTable, "SwapTotal:");
  if (const auto free = read_kernel_bytes(kTable, "SwapFree:"); free && facts.swap_total)
    facts.swap_used = *facts.swap_total - *free;
  double load = 0;
  if (getloadavg(&load, 1) == 1) facts.load = load;
  const Room shm = room_of("/dev/shm");
  facts.shm_size = shm.size;
  facts.shm_free = shm.free;
  const char* tmp = std::getenv("TMPDIR");
  facts.tmp_free = room_of(tmp != nullptr && *tmp != '\0' ? tmp : "/tmp").free;
  facts.driver_version = driver_version_in(kernel_text("/proc/driver/nvidia/version"));
}

}  // namespace cxtrain::doctor
