#include "cxtrain/device/open_file_count.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace cxtrain {
namespace {

/// Not what only looks like a file: "/dev/shm" is memory, "/memfd:..." has no name on any disk.
bool is_file(const std::string& path) {
  return path.starts_with('/') && !path.starts_with("/dev/") && !path.starts_with("/proc/") &&
         !path.starts_with("/sys/") && !path.starts_with("/memfd:") && !path.starts_with("/SYSV");
}

}  // namespace

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
