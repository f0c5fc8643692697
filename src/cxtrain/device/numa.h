#pragma once

#include <span>
#include <string>
#include <vector>

namespace cxtrain {

/// The nodes of memory (NUMA) that these cores belong to, in ascending order; empty where the system does not
/// say it. `folder`: where the system lists them.
std::vector<int> numa_nodes_of(std::span<const int> cores,
                               const std::string& folder = "/sys/devices/system/node");

}  // namespace cxtrain
