#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cxtrain {

/// A control group with a limit of memory: a Slurm job (`--mem`), a container.
struct MemoryGroup {
  std::int64_t limit = 0;  ///< bytes
  std::int64_t used = 0;   ///< bytes, without those of files that the kernel can drop at once
};

/// Returns the control groups with a limit, of those that this process lies in. Versions 1 and 2 of control
/// groups.
std::vector<MemoryGroup> limited_memory_groups();
/// The same for other places. `proc_cgroup`: the content of /proc/self/cgroup; `root`: where the groups lie.
std::vector<MemoryGroup> limited_memory_groups(const std::string& proc_cgroup, const std::string& root);

}  // namespace cxtrain
