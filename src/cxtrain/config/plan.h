#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/field_types.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/arguments.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/rank_memory.h"
#include "cxtrain/config/strategy_traits.h"
#include "cxtrain/device/hardware.h"

/// The decision on node, device and precision of every rank. One pure function makes it, once, before any GPU
/// is touched; the run then follows the plan.
namespace cxtrain {

struct RankPlan {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  std::string device = "cpu";  ///< device of the rank: "cpu", or "cuda:" and an index into the visible set
  std::optional<int> gpu;      ///< physical index; absent on the CPU
  std::string uuid;
  std::vector<std::string> devices;  ///< all devices of the rank, `device` first: devices_per_rank, dp: all
  std::vector<int> gpus;             ///< physical indices of `devices`; empty on the CPU
  std::vector<std::string> uuids;    ///< UUIDs of `devices`

  void fields(auto&& field) {
    CXTRAIN_EACH(field, rank, node, local_rank, device);
    field("gpu", gpu, in_json::kNullIfEmpty);
    field("uuid", uuid, in_json::kNullIfEmpty);
    field("devices", devices);
    field("gpus", gpus);
  }
};

/// A comm hook that a plan names.
struct ChosenCommHook {
  std::string name;
  Arguments arguments;  ///< checked
  CommHookTraits traits;
};

struct Plan {
  std::string accelerator = "cpu";  ///< cpu | gpu
  std::string strategy = "single";
  StrategyTraits traits;         ///< traits of `strategy`
  Arguments strategy_arguments;  ///< checked arguments of `strategy`
  std::optional<ChosenCommHook> comm_hook;
  std::string launcher = "none";  ///< mpirun | srun | subprocess | spawn | none
  int world_size = 1;
  int num_nodes = 1;
  std::vector<int> devices;  ///< indices into the visible set, in the requested order; empty on the CPU
  int devices_per_rank = 1;  ///< parts of a split model; on the CPU all are "cpu"
  int replicas = 1;          ///< models on each rank: dp has one per device; 1 otherwise
  std::vector<RankPlan> ranks;
  std::string precision = "32-true";
  std::string amp_level;                                    ///< O0 to O3; empty (JSON: null) if none applies
  std::optional<MatmulPrecision> float32_matmul_precision;  ///< absent: LibTorch's default
  bool channels_last = false;
  bool benchmark = false;
  bool deterministic = false;
  bool deterministic_warn_only = false;
  std::optional<GpuMemoryLog> log_gpu_memory;
  std::optional<Profiler> profiler;
  std::int64_t accumulate_grad_batches = 1;
  bool sync_batchnorm = false;
  bool recompute_blocks = false;
  /// The components that the run makes, besides a program's own, in the order of their calls. `resolve`
  /// leaves them empty: they are known with the plugins (plugin/known_components.h).
  std::vector<ChosenComponent> callbacks, loggers;
  /// Of each rank, where the model and the strategy are known before the ranks start; `resolve` leaves it
  /// empty.
  std::vector<RankMemory> memory;
  std::vector<Problem> warnings;
  std::vector<Problem> errors;

  /// The JSON, without what `to_json` adds.
  void fields(auto&& field) {
    CXTRAIN_EACH(field, accelerator, strategy, launcher, world_size, num_nodes, devices, ranks, precision);
    field("amp_level", amp_level, in_json::kNullIfEmpty);
    field("benchmark", benchmark);
    field("deterministic", deterministic);
    field("log_gpu_memory", log_gpu_memory, in_json::kNullIfEmpty);
    CXTRAIN_EACH(field, profiler, accumulate_grad_batches, sync_batchnorm);
    field("recompute_blocks", recompute_blocks, in_json::kUnlessDefault);
    field("float32_matmul_precision", float32_matmul_precision);
    field("channels_last", channels_last, in_json::kUnlessDefault);
    field("memory", memory, in_json::kUnlessDefault);
  }

  bool ok() const { return errors.empty(); }
};

/// Makes the plan, or reports every reason why not (in `Plan::errors`). Pure: equal arguments give equal
/// plans. `launched`: how the process was started, or is assumed to be started. `strategies`: all available
/// strategies; any other strategy is rejected. Decisions follow from a strategy's traits, never from its
/// name. The traits and arguments of the requested strategy and of the default strategies must be known
/// (plugin/known_components.h).
Plan resolve(const Options& options, const Hardware& hardware, const WorldFacts& launched,
             const KnownStrategies& strategies);

/// Returns, for each rank, the number of ranks on its node.
std::vector<int> ranks_on_nodes(const Plan& plan);

/// Returns whether the plan needs ranks that have not been started yet, for a process that was started as
/// `launched` describes. `start_ranks` (launchers/launcher.h) then starts them.
bool needs_launch(const Plan& plan, const WorldFacts& launched);

/// Returns the contract's JSON object, on one line.
std::string to_json(const Plan& plan);
/// Returns the table that a run prints at its start.
std::string to_text(const Plan& plan);

/// The devices of the plan's ranks, in one line: "node 0: ranks 0-1 on cuda:0-1". Of many nodes with
/// different layouts the first few.
std::string devices_text(const Plan& plan);

}  // namespace cxtrain
