#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What the machines have. A plain description: read from the real machines (`probe_hardware`,
/// `gather_hardware`), or from a file (`parse_hardware`) to plan for a cluster that is not at hand.
namespace cxtrain {

class World;

/// Whether a GPU is divided into instances that look like GPUs (NVIDIA's Multi-Instance GPU). A divided one
/// is no device of CUDA's any more, its instances are.
enum class Mig { none, divided, instance };

struct Gpu {
  /// The physical index, as nvidia-smi numbers it (PCI bus order). MIG instances, which it does not number,
  /// come after all GPUs.
  int index = 0;
  std::string uuid;
  std::string name;
  std::int64_t memory_total_mib = 0;
  std::string compute_mode = "default";
  /// What others do with the GPU, which only NVML tells; absent: not known.
  std::optional<std::int64_t> memory_used_mib = {};
  std::optional<int> utilization = {};  ///< percent
  std::optional<int> processes = {};
  Mig mig = Mig::none;
  std::string compute_capability = {};  ///< "9.0"; empty: not known
};

struct Node {
  std::string hostname;
  int cores = 1;  ///< cores that this process may run on
  std::vector<Gpu> gpus;
  /// The UUIDs of those that CUDA shows, in its order, where CUDA's driver was asked; absent:
  /// CUDA_VISIBLE_DEVICES tells.
  std::optional<std::vector<std::string>> visible = {};
  std::string cuda_version = {};  ///< the newest CUDA that the driver runs, "13.0"; empty: not known
  std::string cuda_failure = {};  ///< why CUDA cannot start there; empty: nothing is known to prevent it
};

struct Hardware {
  std::vector<Node> nodes;                 ///< one entry stands for every node when there are more nodes
  std::map<std::string, std::string> env;  ///< replaces the process's environment for these keys
  bool gpu_support = true;                 ///< whether this build can use GPUs; not in hardware files
  /// This build's CUDA, 1000 * major + 10 * minor, as CUDART_VERSION; 0: not known. Not in hardware files.
  int cuda_runtime = 0;

  /// The description of node `n`; the last entry stands for all further ones.
  const Node& node(int n) const;
};

/// "13.0" of 13000, as CUDA counts its versions.
std::string cuda_version_text(int version);

/// This machine, through CUDA's driver, NVML (both by `dlopen`; no driver means no GPUs) and the affinity
/// mask. Never creates a CUDA context. A process that was started alone may fork yet, and asks the driver by
/// a child.
Hardware probe_hardware();

/// Reads a hardware file: what `cxtrain_mpi info --hardware --json` prints and `plan --hardware FILE` takes.
///
///     {"nodes":[{"hostname":"n1","cores":32,"gpus":[{"index":0,"uuid":"GPU-a","name":"NVIDIA H100",
///      "memory_total_mib":81559,"memory_used_mib":4,"utilization":0,"compute_mode":"default","processes":0}]}],
///      "env":{"CUDA_VISIBLE_DEVICES":"2,3"}}
///
/// `nodes` (one at least) and each GPU's `index` are needed, the rest has defaults or is not known then;
/// fields beyond these are ignored. Where they are known there are more: a node's `cuda_version` ("13.0") and
/// `cuda_failure`, a GPU's `compute_capability` ("9.0") and `mig` ("divided" or "instance"). Throws DataError
/// naming `file` and the field, or the line where it is no JSON.
Hardware parse_hardware(std::string_view text, const std::string& file);

/// The content of a hardware file, on one line.
std::string to_json(const Hardware& hardware);
/// The same with what a file leaves to CUDA_VISIBLE_DEVICES: a node's `visible`, the UUIDs that CUDA shows.
std::string to_json_with_visible(const Hardware& hardware);

/// What all nodes of the world have, each as its first rank sees it, so that all ranks plan from the same
/// picture: GPUs that are free when one rank looks may not be when the next one does. Collective; before any
/// rank touches a GPU.
Hardware gather_hardware(World& world);

/// The picture that a rank on node `node` gets. `seen`: what the first rank of each node sees of it; `own`:
/// what this one does. It keeps its own view of its node where that has other GPUs than the first rank's
/// (Slurm's --gpus-per-task); `env` and `gpu_support` are always its own.
Hardware merge_hardware(const std::vector<Hardware>& seen, int node, const Hardware& own);

}  // namespace cxtrain
