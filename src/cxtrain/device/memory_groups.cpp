#include "cxtrain/device/memory_groups.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

namespace cxtrain {
namespace {

/// The names of a group's files, and of the entries of its statistics for memory that the kernel can free.
struct GroupFiles {
  const char *limit, *used;
  std::array<std::string_view, 3> freeable;
};
constexpr GroupFiles kVersion1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kVersion2{
    "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest != text.data() ? std::optional(number) : std::nullopt;
}

/// The sum of entries of a table of names and numbers.
std::int64_t sum_of(const std::string& table, std::span<const std::string_view> entries) {
  std::int64_t sum = 0;
  std::istringstream words(table);
  std::string word;
  for (std::int64_t number = 0; words >> word >> number;) {
    if (std::find(entries.begin(), entries.end(), word) != entries.end()) sum += number;
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
    const auto limit = whole_number(text_of(folder + files.limit));
    if (limit && *limit < kNoLimit) {
      const std::int64_t used = whole_number(text_of(folder + files.used)).value_or(0);
      // The statistics are older than the number of used bytes.
      const std::int64_t kept = used - sum_of(text_of(folder + "memory.stat"), files.freeable);
      found.push_back({*limit, std::max<std::int64_t>(0, kept)});
    }
    if (group.empty() || group == "/") return;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

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
