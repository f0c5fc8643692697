#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "cxtrain/config/resolve_steps.h"

namespace cxtrain {
namespace {

/// What a CUDA runtime needs of driver and GPU, by its major version: drivers run every runtime of their own
/// major version and of older ones (CUDA Compatibility, "minor version compatibility"); LibTorch's builds
/// leave out GPUs that their CUDA has dropped.
struct RuntimeNeeds {
  int major;
  const char* driver;      ///< the oldest, as nvidia-smi shows it
  const char* capability;  ///< the lowest
};
constexpr RuntimeNeeds kRuntimeNeeds[] = {{13, "580", "7.5"}, {12, "525", "5.0"}, {11, "450", "3.5"}};

const RuntimeNeeds* needs_of(int runtime) {
  const auto* found = std::ranges::find(kRuntimeNeeds, runtime / 1000, &RuntimeNeeds::major);
  return found == std::end(kRuntimeNeeds) ? nullptr : found;
}

/// "12.4" as 12004, as CUDA counts; 0 for what is no version.
int version_of(std::string_view text) {
  int major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, major);
  if (error != std::errc()) return 0;
  if (rest != end && *rest == '.') std::from_chars(rest + 1, end, minor);
  return major * 1000 + minor;
}

void check_driver(const Hardware& hardware, int node, Plan& plan) {
  const Node& machine = hardware.node(node);
  const int driver = version_of(machine.cuda_version), runtime = hardware.cuda_runtime;
  if (driver == 0 || driver / 1000 >= runtime / 1000) return;
  const RuntimeNeeds* needs = needs_of(runtime);
  plan.errors.push_back(
      {"accelerator",
       "this cxtrain was built with CUDA " + cuda_version_text(runtime) + ", and the driver of node " +
           machine.hostname + " runs CUDA " + machine.cuda_version + " at most",
       std::string("install a driver") +
           (needs != nullptr ? std::string(" of version ") + needs->driver + " or newer" : " for it") +
           ", build cxtrain with a LibTorch for CUDA " + std::to_string(driver / 1000) +
           ", or use --accelerator cpu",
       MessageCode::no_device});
}

void check_capability(const Gpu& gpu, const Hardware& hardware, int node, Plan& plan) {
  const RuntimeNeeds* needs = needs_of(hardware.cuda_runtime);
  const int found = version_of(gpu.compute_capability);
  if (needs == nullptr || found == 0 || found >= version_of(needs->capability)) return;
  plan.errors.push_back(
      {"accelerator",
       "GPU " + std::to_string(gpu.index) + " of node " + hardware.node(node).hostname + " (" + gpu.name +
           ") has compute capability " + gpu.compute_capability + ", and LibTorch for CUDA " +
           std::to_string(needs->major) + " needs " + needs->capability + " at least",
       "name other GPUs (--devices 1,), build cxtrain with a LibTorch for an older CUDA, or use "
       "--accelerator cpu",
       MessageCode::no_device});
}

}  // namespace

void check_cuda(const Hardware& hardware, Plan& plan) {
  if (plan.accelerator != "gpu" || hardware.cuda_runtime == 0) return;
  std::set<int> nodes;
  std::set<std::pair<int, int>> checked;
  for (const RankPlan& rank : plan.ranks) {
    // One description may stand for many nodes.
    const int node = std::min(rank.node, static_cast<int>(hardware.nodes.size()) - 1);
    if (nodes.insert(node).second) check_driver(hardware, node, plan);
    for (const int index : rank.gpus) {
      if (!checked.insert({node, index}).second) continue;
      const std::vector<Gpu>& gpus = hardware.node(node).gpus;
      const auto gpu = std::ranges::find(gpus, index, &Gpu::index);
      if (gpu != gpus.end()) check_capability(*gpu, hardware, node, plan);
    }
  }
}

}  // namespace cxtrain
