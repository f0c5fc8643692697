#include "cxtrain/base/clock.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <sstream>
#include <string>

#include "cxtrain/base/kernel_files.h"

namespace cxtrain {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string date_text(double time, const char* format, bool utc) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  if ((utc ? gmtime_r(&seconds, &parts) : localtime_r(&seconds, &parts)) == nullptr) return {};
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

double seconds_since_process_start() {
  // Field 22 of /proc/self/stat, in clock ticks since boot; the name in field 2 may hold spaces.
  const std::string line = kernel_text("/proc/self/stat");
  const std::size_t after_name = line.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream fields(line.substr(after_name + 2));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  fields >> ticks;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double since_boot = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  return since_boot - ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace cxtrain
