#include "cxtrain/device/numa.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cxtrain/base/number_ranges.h"

namespace cxtrain {

std::vector<int> numa_nodes_of(std::span<const int> cores, const std::string& folder) {
  std::vector<int> nodes;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view kNode = "node";
    if (!name.starts_with(kNode) || name.find_first_not_of("0123456789", kNode.size()) != std::string::npos)
      continue;
    std::string list;
    std::ifstream(entry.path() / "cpulist") >> list;
    const std::vector<int> of_node = parse_ranges(list);
    const auto is_its = [&](int core) { return std::ranges::find(of_node, core) != of_node.end(); };
    if (std::ranges::any_of(cores, is_its)) nodes.push_back(std::atoi(name.c_str() + kNode.size()));
  }
  std::ranges::sort(nodes);
  return nodes;
}

}  // namespace cxtrain
