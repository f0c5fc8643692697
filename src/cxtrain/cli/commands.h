#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/help.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/scaling/cost_estimate.h"

/// The subcommands that print something and train nothing.
namespace cxtrain {

class Module;

/// What `cxtrain_mpi plan` would do with these options: for the hardware of the file or of this machine, and
/// for the ranks of --ranks, --ranks-per-node, else as if started alone. Needs no GPU and no MPI. Unreadable
/// files and impossible numbers of ranks are in Plan::errors. `strategies`: see `resolve`.
struct ResolvedPlan {
  Plan plan;
  Hardware hardware;
  std::optional<CostEstimate> estimate = {};  ///< with --estimate
};
ResolvedPlan make_plan(const Options& options, const KnownStrategies& strategies);

/// Fills in the memory that each rank of a plan without errors needs, and appends an error for a device that
/// has less, or a model that the strategy cannot train. `model`: built under `ShapesOnly`, which still lives.
void fill_in_memory(Plan& plan, const Hardware& hardware, const Options& options, Module& model);

/// Prints a plan, as a table or with --json as JSON. `problems`: what was refused before it came to a plan
/// (options, files, components); they become errors of the plan, with JSON, and are thrown together with its
/// own as a ConfigError otherwise. `columns`: of the terminal that `out` comes to, for a drawing of the nodes
/// below the table; 0: without it. Returns the exit status: 0, or 2 when the plan has errors.
int print_plan(ResolvedPlan resolved, const Options& options, std::ostream& out,
               const std::vector<Problem>& problems = {}, int columns = 0);

/// `cxtrain_mpi slurm-script`: prints the script of a batch job (cli/slurm_script.h) that runs `program` with
/// the options of fit among `words`, the command line. With --submit it is written to a file, submitted, and
/// its output printed to `out` until it ends; returns its exit status then. `problems`: as for `print_plan`;
/// with what the plan for the job's world is refused for they are thrown as a ConfigError.
int run_slurm_script(const Options& options, std::span<const char* const> words, const std::string& program,
                     std::ostream& out, const KnownStrategies& strategies, std::vector<Problem> problems);

/// `cxtrain_mpi info`: the version, this machine's cores and GPUs, `extra_lines` ("LibTorch 2.11.0") from
/// callers that know more, and the components that the command line may name. With --hardware the hardware
/// only; with
/// --json as JSON (the hardware's is the hardware file's). Returns the exit status.
int run_info(const Options& options, std::span<const std::string> extra_lines, const HelpSource& components,
             std::ostream& out);

/// "cxtrain 0.1.0 (LibTorch 2.11.0, ...)".
std::string version_line();
/// Returns the parts of the build and of this machine, a line each: LibTorch, MPI, CUDA, NCCL, the plugin
/// ABI, formats of images.
std::vector<std::string> version_lines();

}  // namespace cxtrain
