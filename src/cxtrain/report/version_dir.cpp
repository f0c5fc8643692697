#include "cxtrain/report/version_dir.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "version_";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw ConfigError("trainer.default_root_dir", "the run's folder '" + path + "' cannot be created: " + why,
                    "name a folder that you may write to");
}

/// One more than the highest version in `logs`.
std::int64_t next_version(const fs::path& logs) {
  std::int64_t next = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(logs)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t version = 0;
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, version);
    const bool is_one = error == std::errc() && rest == end;
    if (is_one && version < std::numeric_limits<std::int64_t>::max()) next = std::max(next, version + 1);
  }
  return next;
}

}  // namespace

std::string make_version_dir(const std::string& default_root_dir) {
  const fs::path logs = fs::path(default_root_dir) / "cxtrain_logs";
  try {
    fs::create_directories(logs);
    for (std::int64_t version = next_version(logs);; ++version) {
      const std::string path = (logs / (std::string(kPrefix) + std::to_string(version))).string();
      // mkdir makes a folder for exactly one of those who ask for it at the same time.
      if (mkdir(path.c_str(), 0777) == 0) return path;
      if (errno != EEXIST) refuse(path, std::strerror(errno));
    }
  } catch (const fs::filesystem_error& error) {
    refuse(logs.string(), error.code().message());
  }
}

}  // namespace cxtrain
