#pragma once

#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/arguments.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/strategy_traits.h"
#include "cxtrain/device/hardware.h"

/// The decision: which rank runs where, on what, with which precision. Made once, by one pure function,
/// before any GPU is touched; the run then does what the plan says.
namespace cxtrain {

/// Ranks, nodes and devices beyond this are a slip of the finger: no machine has so many, and a plan of them
/// would take gigabytes and minutes.
inline constexpr int kMostRanks = 100'000;

struct RankPlan {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  std::string device = "cpu";  ///< what the rank uses: "cpu" or "cuda:<index into the visible set>"
  int gpu = -1;                ///< physical index, -1 on CPU
  std::string uuid;
  std::vector<std::string> devices;  ///< all that the rank drives, `device` first: devices_per_rank, dp: all
  std::vector<int> gpus;             ///< their physical indices; empty on CPU
  std::vector<std::string> uuids;    ///< and UUIDs
};

struct Plan {
  std::string accelerator = "cpu";  ///< cpu | gpu
  std::string strategy = "single";
  StrategyTraits traits;          ///< the strategy's
  Arguments strategy_arguments;   ///< checked; those that it is made with
  std::string launcher = "none";  ///< mpirun | srun | subprocess | spawn | none
  int world_size = 1;
  int num_nodes = 1;
  std::vector<int> devices;  ///< indices into the visible set, in the order asked; empty on CPU
  int devices_per_rank = 1;  ///< parts of a split model; on the CPU all are "cpu"
  int replicas = 1;          ///< that each rank keeps: dp has one on each device; 1 otherwise
  std::vector<RankPlan> ranks;
  std::string precision = "32-true";
  std::string amp_level;                                    ///< O0 to O3 where one is in effect; empty: null
  std::optional<MatmulPrecision> float32_matmul_precision;  ///< absent: as LibTorch has it
  bool channels_last = false;
  bool benchmark = false;
  bool deterministic = false;
  bool deterministic_warn_only = false;
  std::optional<GpuMemoryLog> log_gpu_memory;
  std::int64_t accumulate_grad_batches = 1;
  bool sync_batchnorm = false;
  /// What the run makes besides what a program adds itself, in the order of their calls. `resolve` leaves
  /// them empty: they are known with the plugins (plugin/known_components.h).
  std::vector<ChosenComponent> callbacks, loggers;
  std::vector<Problem> warnings;
  std::vector<Problem> errors;

  bool ok() const { return errors.empty(); }
};

/// Decides, or reports every reason why not (in `Plan::errors`). Pure: same arguments, same answer.
/// `launched` says how the process was started (or is to be imagined started). `strategies` are those that
/// there are: others are refused, and what is decided about one follows from its traits, never from its name.
/// It needs what is known of the one that is asked for and of the defaults (plugin/known_components.h).
Plan resolve(const Options& options, const Hardware& hardware, const WorldFacts& launched,
             const KnownStrategies& strategies);

/// Whether the plan wants ranks that nobody has started yet, seen from a process that was started as
/// `launched` says: `start_ranks` (launchers/launcher.h) then starts them.
bool needs_launch(const Plan& plan, const WorldFacts& launched);

/// The contract's JSON object, one line.
std::string to_json(const Plan& plan);
/// The table that a run prints at its start.
std::string to_text(const Plan& plan);

}  // namespace cxtrain
