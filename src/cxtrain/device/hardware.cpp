#include "cxtrain/device/hardware.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/slurm_allocation.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/device/cuda_driver.h"
#include "cxtrain/device/nvml.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {
namespace {

/// An index names one GPU of a node.
void check_indices(const Node& node, const std::string& place) {
  std::set<int> indices;
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    if (!indices.insert(node.gpus[i].index).second)
      throw DataError(place + ".gpus[" + std::to_string(i) + "]: the index " +
                          std::to_string(node.gpus[i].index) + " is used twice on this node",
                      MessageCode::invalid_file);
  }
}

/// Whether both may use the same GPUs under the same numbers; how busy these are does not matter.
bool show_the_same(const Hardware& a, const Hardware& b) {
  return a.env == b.env && a.nodes[0].visible == b.nodes[0].visible &&
         std::ranges::equal(a.nodes[0].gpus, b.nodes[0].gpus, {}, &Gpu::uuid, &Gpu::uuid);
}

}  // namespace

const Node& Hardware::node(int n) const {
  if (nodes.empty() || n < 0) throw std::logic_error("a hardware description has at least one node");
  return nodes[std::min(static_cast<std::size_t>(n), nodes.size() - 1)];
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Hardware probe_hardware() {
  Hardware hardware;
  Node& node = hardware.nodes.emplace_back();
  node.hostname = hostname();
  node.cores = cores_of_this_process();
  hardware.gpu_support = has_cuda_library();
  if (hardware.gpu_support) {
    hardware.cuda_runtime = CXTRAIN_CUDA_RUNTIME;
    const bool may_fork = detect_launcher() == LaunchedBy::alone;
    join_gpus(read_gpus_from_nvml(), may_fork ? read_gpus_from_driver_in_child() : read_gpus_from_driver(),
              node);
    if (node.cuda_version.empty() && !node.gpus.empty()) node.cuda_version = cuda_version_from_nvml();
  } else {
    node.gpus = read_gpus_from_nvml();
  }
  // Where the ranks have been started, MPI says where they are.
  if (detect_launcher() == LaunchedBy::alone) hardware.env = slurm_environment();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    hardware.env["CUDA_VISIBLE_DEVICES"] = visible;
  return hardware;
}

Hardware parse_hardware(std::string_view text, const std::string& file) {
  const std::string document = "hardware file " + file;
  auto hardware =
      struct_of_json<Hardware>(parse_document(text, document), {.document = document, .numbers = {0}});
  if (hardware.nodes.empty())
    throw DataError(document + ": nodes: expected at least one node, found none", MessageCode::invalid_file);
  for (std::size_t i = 0; i < hardware.nodes.size(); ++i) {
    check_indices(hardware.nodes[i], document + ": nodes[" + std::to_string(i) + "]");
    if (hardware.nodes[i].hostname.empty()) hardware.nodes[i].hostname = std::to_string(i);
  }
  return hardware;
}

std::string to_json(const Hardware& hardware) {
  Hardware written = hardware;
  for (Node& node : written.nodes) node.visible.reset();
  return to_json_with_visible(written);
}
std::string to_json_with_visible(const Hardware& hardware) { return text_of_json(json_of(hardware)); }

Machines gather_machines(World& world) {
  Machines found;
  found.of_nodes = world.gather_nodes(machine_id());
  std::set<std::string> distinct;
  for (const std::string& machine : found.of_nodes) {
    // A system that does not say which it is has to be taken for one of its own.
    if (!machine.empty() && !distinct.insert(machine).second) found.shared = true;
  }
  return found;
}

Hardware merge_hardware(const std::vector<Hardware>& seen, int node, const Hardware& own) {
  Hardware merged;
  merged.env = own.env;
  merged.gpu_support = own.gpu_support;
  merged.cuda_runtime = own.cuda_runtime;
  for (const Hardware& each : seen) merged.nodes.push_back(each.nodes[0]);
  const auto mine = static_cast<std::size_t>(node);
  if (!show_the_same(own, seen[mine])) merged.nodes[mine] = own.nodes[0];
  return merged;
}

Hardware gather_hardware(World& world) {
  const WorldFacts& facts = world.facts();
  const Hardware own = probe_hardware();
  std::vector<Hardware> seen;
  for (const std::string& text :
       world.gather_nodes(facts.local_rank == 0 ? to_json_with_visible(own) : std::string()))
    seen.push_back(parse_hardware(text, "a node's hardware"));
  if (facts.local_rank == 0) {
    // Also what a file of hardware does not hold.
    seen[static_cast<std::size_t>(facts.node)] = own;
  }
  return merge_hardware(seen, facts.node, own);
}

}  // namespace cxtrain
