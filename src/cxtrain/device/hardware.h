#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// What the machines have. A plain description: read from the real machines (`probe_hardware`,
/// `gather_hardware`), or from a file (`parse_hardware`) to plan for a cluster that is not at hand.
namespace cxtrain {

class World;

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

/// Reads a hardware file: what `cxtrain_mpi info --hardware --json` prints and `plan --hardware FILE` takes.
///
///     {"nodes":[{"hostname":"n1","cores":32,"gpus":[{"index":0,"uuid":"GPU-a","name":"NVIDIA H100",
///      "memory_total_mib":81559,"memory_used_mib":4,"utilization":0,"compute_mode":"default","processes":0}]}],
///      "env":{"CUDA_VISIBLE_DEVICES":"2,3"}}
///
/// `nodes` (one at least) and each GPU's `index` are needed, the rest has defaults; fields beyond
/// these are ignored. Throws DataError naming `file` and the field, or the line where it is no JSON.
Hardware parse_hardware(std::string_view text, const std::string& file);

/// The content of a hardware file, on one line.
std::string to_json(const Hardware& hardware);

/// What all nodes of the world have, each as its first rank sees it, so that all ranks plan from the same
/// picture: GPUs that are free when one rank looks may not be when the next one does. Collective; before any
/// rank touches a GPU.
Hardware gather_hardware(World& world);

/// The picture that rank `me` gets. `seen`: what each rank sees of its own node; `nodes`: the node of each
/// rank. A rank keeps its own view of its node where the node's ranks were given different GPUs to see
/// (Slurm's --gpus-per-task); `env` and `gpu_support` are always its own.
Hardware merge_hardware(const std::vector<Hardware>& seen, const std::vector<int>& nodes, int me);

}  // namespace cxtrain
