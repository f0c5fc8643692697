#include "cxtrain/device/gather_hardware.h"

#include <algorithm>
#include <string>

#include "cxtrain/device/hardware_json.h"

namespace cxtrain {
namespace {

/// Whether both may use the same GPUs under the same numbers; how busy these are does not matter.
bool show_the_same(const Hardware& a, const Hardware& b) {
  return a.env == b.env && std::ranges::equal(a.nodes[0].gpus, b.nodes[0].gpus, {}, &Gpu::uuid, &Gpu::uuid);
}

}  // namespace

Hardware merge_hardware(const std::vector<Hardware>& seen, const std::vector<int>& nodes, int me) {
  const Hardware& mine = seen[static_cast<std::size_t>(me)];
  const int my_node = nodes[static_cast<std::size_t>(me)];
  Hardware merged;
  merged.env = mine.env;
  merged.gpu_support = mine.gpu_support;
  for (int node = 0; node <= *std::ranges::max_element(nodes); ++node) {
    const auto first = static_cast<std::size_t>(std::ranges::find(nodes, node) - nodes.begin());
    bool shared = true;
    for (std::size_t rank = first; rank < nodes.size(); ++rank) {
      shared = shared && (nodes[rank] != node || show_the_same(seen[rank], seen[first]));
    }
    merged.nodes.push_back((node == my_node && !shared ? mine : seen[first]).nodes[0]);
  }
  return merged;
}

Hardware gather_hardware(World& world) {
  const Hardware own = probe_hardware();
  std::vector<Hardware> seen;
  for (const std::string& text : world.all_gather(to_json(own))) {
    seen.push_back(parse_hardware(text, "a rank's hardware"));
  }
  seen[static_cast<std::size_t>(world.rank())] = own;  // what a file of hardware does not hold, too
  const std::vector<int>& nodes = world.facts().rank_nodes;
  return merge_hardware(seen, nodes.empty() ? std::vector<int>(seen.size(), 0) : nodes, world.rank());
}

}  // namespace cxtrain
