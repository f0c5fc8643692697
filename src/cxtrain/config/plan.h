#pragma once

#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/device/hardware.h"

/// The decision: which rank runs where, on what, with which precision. Made once, by one pure function,
/// before any GPU is touched; the run then does what the plan says.
namespace cxtrain {

struct RankPlan {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  std::string device = "cpu";  ///< what the rank uses: "cpu" or "cuda:<index into the visible set>"
  int gpu = -1;                ///< physical index, -1 on CPU
  std::string uuid;
};

struct Plan {
  std::string accelerator = "cpu";  ///< cpu | gpu
  std::string strategy = "single";
  std::string launcher = "none";  ///< mpirun | srun | subprocess | spawn | none
  int world_size = 1;
  int num_nodes = 1;
  std::vector<int> devices;  ///< indices into the visible set, in the order asked; empty on CPU
  std::vector<RankPlan> ranks;
  std::string precision = "32-true";
  std::string amp_level;  ///< empty: null
  bool benchmark = false;
  bool deterministic = false;
  std::string log_gpu_memory;  ///< empty: null
  std::int64_t accumulate_grad_batches = 1;
  bool sync_batchnorm = false;
  std::vector<Problem> warnings;
  std::vector<Problem> errors;

  bool ok() const { return errors.empty(); }
};

/// Decides, or reports every reason why not (in `Plan::errors`). Pure: same arguments, same answer.
/// `launched` says how the process was started (or is to be imagined started).
Plan resolve(const Options& options, const Hardware& hardware, const WorldFacts& launched);

/// The contract's JSON object, one line.
std::string to_json(const Plan& plan);
/// The table that a run prints at its start.
std::string to_text(const Plan& plan);

}  // namespace cxtrain
