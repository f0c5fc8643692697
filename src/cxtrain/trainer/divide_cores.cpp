#include "cxtrain/trainer/divide_cores.h"

#include <ATen/Parallel.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cxtrain/base/log.h"
#include "cxtrain/device/core_share.h"

namespace cxtrain {
namespace {

/// The cores that each rank of the job has for itself.
std::vector<int> cores_of_ranks(World& world) {
  const std::string own = std::to_string(world.facts().node) + " " + format_cores(cores_of_mask());
  const std::vector<std::string> everyone = world.all_gather(own);
  struct OfNode {
    std::vector<std::size_t> ranks;
    std::vector<std::vector<int>> masks;
  };
  std::map<std::string, OfNode> nodes;
  for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
    const std::size_t space = everyone[rank].find(' ');
    OfNode& node = nodes[everyone[rank].substr(0, space)];
    node.ranks.push_back(rank);
    node.masks.push_back(parse_cores(everyone[rank].substr(space + 1)));
  }
  std::vector<int> cores(everyone.size());
  for (const auto& [name, node] : nodes) {
    const std::vector<int> shares = core_shares(node.masks);
    for (std::size_t i = 0; i < shares.size(); ++i) cores[node.ranks[i]] = shares[i];
  }
  return cores;
}

}  // namespace

void divide_cores(World& world, int data_workers, bool on_gpu) {
  const std::vector<int> cores = cores_of_ranks(world);
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    at::set_num_threads(cores[static_cast<std::size_t>(world.rank())]);
  if (!world.is_root()) return;
  for (std::size_t rank = 0; rank < cores.size(); ++rank) {
    const std::string few = too_few_cores(static_cast<int>(rank), cores[rank], data_workers, on_gpu);
    if (few.empty()) continue;
    log_warning(few);
    return;  // once, of the first
  }
}

}  // namespace cxtrain
