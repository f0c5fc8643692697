#include "cxtrain/device/memory_groups.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

namespace cxtrain {
namespace {

/// The names of a group's files, and of the entry of its statistics.
struct GroupFiles {
  const char *limit, *used, *droppable;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest != text.data() ? std::optional(number) : std::nullopt;
}

std::int64_t entry_of(const std::string& table, std::string_view entry) {
  std::istringstream words(table);
  for (std::string word; words >> word;) {
    std::int64_t number = 0;
    if (word == entry && words >> number) return number;
  }
  return 0;
}

/// Adds a group, and those that it lies in, as far as they have a limit.
void add_groups(const std::string& root, std::string group, const GroupFiles& files,
                std::vector<MemoryGroup>& found) {
  // What version 1 shows where there is none.
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  while (true) {
    const std::string folder = root + group + "/";
    const auto limit = whole_number(text_of(folder + files.limit));
    if (limit && *limit < kNoLimit) {
      const std::int64_t used = whole_number(text_of(folder + files.used)).value_or(0);
      found.push_back({*limit, used - entry_of(text_of(folder + "memory.stat"), files.droppable)});
    }
    if (group.empty() || group == "/") return;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

std::vector<MemoryGroup> limited_memory_groups() {
  return limited_memory_groups(text_of("/proc/self/cgroup"), "/sys/fs/cgroup");
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

}  // namespace cxtrain
