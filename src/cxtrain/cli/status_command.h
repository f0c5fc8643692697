#pragma once

#include <iosfwd>
#include <span>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

/// `cxtrain_mpi status PATH [--json]`: how the run in a folder is (report/run_status.h). Needs no GPU, starts
/// no MPI. `now`: seconds since 1970. `columns`: of the terminal that `out` comes to, for curves; 0: without
/// them. Returns the exit status: 0, whatever has become of the run. Throws ConfigError for words that mean
/// nothing, and where there is no run.
int run_status_command(std::span<const char* const> words, Filesystem& files, double now, int columns,
                       std::ostream& out);

}  // namespace cxtrain
