#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cxtrain {

/// A control group with a limit of memory: a Slurm job (`--mem`), a container.
struct MemoryGroup {
  std::int64_t limit = 0;  ///< bytes
  /// Bytes, without those that the kernel can free at once: pages of files, and the kernel's own caches.
  std::int64_t used = 0;
};

/// Returns the lowest limit of these groups; absent if there are no groups. Pure.
std::optional<std::int64_t> least_limit(std::span<const MemoryGroup> groups);

/// Returns the bytes that a process in these groups can still have, of `of_machine` bytes. Pure.
std::int64_t available_within(std::int64_t of_machine, std::span<const MemoryGroup> groups);

/// Returns the control groups with a limit, of those that this process lies in. Versions 1 and 2 of control
/// groups.
std::vector<MemoryGroup> limited_memory_groups();
/// Returns the control groups with a limit that these files describe. `proc_cgroup`: the content of
/// /proc/self/cgroup; `root`: the folder of the control groups.
std::vector<MemoryGroup> limited_memory_groups(const std::string& proc_cgroup, const std::string& root);

}  // namespace cxtrain
