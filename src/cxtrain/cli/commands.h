#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/catalogue.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"

/// The subcommands that print something and train nothing.
namespace cxtrain {

/// What `cxtrain_mpi plan` would do with these options: for the hardware of the file or of this machine, and
/// for the ranks of --ranks, --ranks-per-node, else as if started alone. Needs no GPU and no MPI. Unreadable
/// files and impossible numbers of ranks are in Plan::errors. `strategies`: see `resolve`.
Plan make_plan(const Options& options, const KnownStrategies& strategies);

/// Prints that plan, as a table or with --json as JSON. `problems`: what was refused before it came to a plan
/// (options, files, components); they become errors of the plan, with JSON, and are thrown together with its
/// own as a ConfigError otherwise. Returns the exit status: 0, or 2 when the plan has errors.
int run_plan(const Options& options, std::ostream& out, const KnownStrategies& strategies,
             const std::vector<Problem>& problems = {});

/// `cxtrain_mpi info`: the version, this machine's cores and GPUs, `extra_lines` ("LibTorch 2.11.0") from
/// callers that know more, and what may be named on the command line. With --hardware the hardware only; with
/// --json as JSON (the hardware's is the hardware file's). Returns the exit status.
int run_info(const Options& options, std::span<const std::string> extra_lines,
             const std::vector<CatalogueSection>& catalogue, std::ostream& out);

/// "cxtrain 0.1.0 (LibTorch 2.11.0, ...)".
std::string version_line();
/// What was compiled in and what is there now, a line each: LibTorch, MPI, CUDA, NCCL, the plugin ABI.
std::vector<std::string> version_lines();

}  // namespace cxtrain
