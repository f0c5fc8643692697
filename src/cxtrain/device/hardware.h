#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// What the machines have. A plain description: read from the real machine (`probe_hardware`), or from a file
/// (device/hardware_json.h) to plan for a cluster that is not at hand.
namespace cxtrain {

struct Gpu {
  int index = 0;  ///< physical index, as nvidia-smi numbers it (PCI bus order)
  std::string uuid;
  std::string name;
  std::int64_t memory_total_mib = 0;
  std::int64_t memory_used_mib = 0;
  int utilization = 0;  ///< percent
  std::string compute_mode = "default";
  int processes = 0;
};

struct Node {
  std::string hostname;
  int cores = 1;  ///< cores that this process may run on
  std::vector<Gpu> gpus;
};

struct Hardware {
  std::vector<Node> nodes;                 ///< one entry stands for every node when there are more nodes
  std::map<std::string, std::string> env;  ///< replaces the process's environment for these keys
  bool gpu_support = true;                 ///< whether this build can use GPUs; not in hardware files

  /// The description of node `n`; the last entry stands for all further ones.
  const Node& node(int n) const;
};

/// This machine, through NVML (`dlopen`; no driver means no GPUs) and the affinity mask. Never creates a CUDA
/// context.
Hardware probe_hardware();

}  // namespace cxtrain
