#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/field_types.h"

/// Description of the machines' hardware, as plain data. It comes from the real machines (`probe_hardware`,
/// `gather_hardware`), or from a file (`parse_hardware`) to plan for a cluster that is not at hand.
namespace cxtrain {

class World;

/// Division of a GPU into instances that look like GPUs (NVIDIA's Multi-Instance GPU). A divided GPU is not a
/// CUDA device any more; its instances are.
enum class Mig { none, divided, instance };
template <>
struct ChoiceOf<Mig> {
  static constexpr std::array<std::string_view, 3> words{"none", "divided", "instance"};
};

struct Gpu {
  /// The physical index, as nvidia-smi numbers GPUs (PCI bus order). MIG instances, which nvidia-smi does not
  /// number, come after all GPUs.
  int index = 0;
  std::string uuid;
  std::string name;
  std::int64_t memory_total_mib = 0;
  std::string compute_mode = "default";
  /// Use of the GPU by other processes, which only NVML reports; absent: unknown.
  std::optional<std::int64_t> memory_used_mib = {};
  std::optional<int> utilization = {};  ///< percent
  std::optional<int> processes = {};
  Mig mig = Mig::none;
  std::string compute_capability = {};  ///< "9.0"; empty: unknown

  void fields(auto&& field) {
    field("index", index, in_json::kNeeded);
    CXTRAIN_EACH(field, uuid, name, memory_total_mib, memory_used_mib, utilization, compute_mode, processes);
    field("compute_capability", compute_capability, in_json::kUnlessDefault);
    field("mig", mig, in_json::kUnlessDefault);
  }
};

struct Node {
  std::string hostname;
  int cores = 1;  ///< cores that this process may run on
  std::vector<Gpu> gpus;
  /// The UUIDs of the GPUs that CUDA shows, in its order, if CUDA's driver was asked; absent:
  /// CUDA_VISIBLE_DEVICES decides.
  std::optional<std::vector<std::string>> visible = {};
  std::string cuda_version = {};  ///< the newest CUDA that the driver runs, "13.0"; empty: unknown
  std::string cuda_failure = {};  ///< why CUDA cannot start there; empty: no known reason

  void fields(auto&& field) {
    field("hostname", hostname);
    field("cores", cores, in_json::AtLeast{1});
    field("gpus", gpus);
    field("cuda_version", cuda_version, in_json::kUnlessDefault);
    field("cuda_failure", cuda_failure, in_json::kUnlessDefault);
    field("visible", visible);
  }
};

struct Hardware {
  std::vector<Node> nodes;                 ///< if there are more nodes, the last entry stands for the rest
  std::map<std::string, std::string> env;  ///< replaces the process's environment for these keys
  bool gpu_support = true;                 ///< whether this build can use GPUs; not in hardware files
  /// This build's CUDA, 1000 * major + 10 * minor, as CUDART_VERSION; 0: unknown. Not in hardware files.
  int cuda_runtime = 0;

  void fields(auto&& field) {
    field("nodes", nodes, in_json::kNeeded);
    field("env", env);
  }

  /// Returns the description of node `n`; the last entry stands for all further nodes.
  const Node& node(int n) const;
};

/// Returns "13.0" for 13000, as CUDA counts its versions.
std::string cuda_version_text(int version);

/// Reads this machine's hardware from CUDA's driver, NVML (both by `dlopen`; no driver means no GPUs) and the
/// affinity mask. Never creates a CUDA context. A process that was started alone may fork later, so it asks
/// the driver in a child process.
Hardware probe_hardware();

/// Reads a hardware file: the output of `cxtrain_mpi info --hardware --json` and the input of
/// `plan --hardware FILE`.
///
///     {"nodes":[{"hostname":"n1","cores":32,"gpus":[{"index":0,"uuid":"GPU-a","name":"NVIDIA H100",
///      "memory_total_mib":81559,"memory_used_mib":4,"utilization":0,"compute_mode":"default","processes":0}]}],
///      "env":{"CUDA_VISIBLE_DEVICES":"2,3"}}
///
/// Required are `nodes` (at least one) and each GPU's `index`. All other fields have defaults or count as
/// unknown; further fields are ignored. Optional fields besides: a node's `cuda_version` ("13.0") and
/// `cuda_failure`, a GPU's `compute_capability` ("9.0") and `mig` ("divided" or "instance"). Throws DataError
/// with `file` and the field, or with the line that is not JSON.
Hardware parse_hardware(std::string_view text, const std::string& file);

/// Returns the content of a hardware file, on one line.
std::string to_json(const Hardware& hardware);
/// Like `to_json`, with a field that a file leaves to CUDA_VISIBLE_DEVICES: a node's `visible`, the UUIDs
/// that CUDA shows.
std::string to_json_with_visible(const Hardware& hardware);

/// Returns the hardware of all nodes of the world, each as its first rank sees it. All ranks then plan from
/// equal data, although GPUs that are free when one rank looks may be busy when the next rank looks.
/// Collective; before any rank touches a GPU.
Hardware gather_hardware(World& world);

/// The machines that a world's nodes are: containers and emulated nodes may be one, whose cores and GPUs they
/// share, whatever they are called.
struct Machines {
  std::vector<std::string> of_nodes;  ///< `machine_id` of each node
  bool shared = false;                ///< whether any two nodes are one
};

/// Asks the first rank of each node. Collective.
Machines gather_machines(World& world);

/// Returns the hardware for a rank on node `node`. `seen`: each node as its first rank sees it. `own`: this
/// rank's view, which replaces the entry of its node if it has other GPUs than the first rank's (Slurm's
/// --gpus-per-task). `env`, `gpu_support` and `cuda_runtime` always come from `own`.
Hardware merge_hardware(const std::vector<Hardware>& seen, int node, const Hardware& own);

}  // namespace cxtrain
