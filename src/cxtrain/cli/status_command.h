#pragma once

#include <iosfwd>
#include <span>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

/// `cxtrain_mpi status PATH [--json]`: how the run in a folder is (report/run_status.h). Needs no GPU, starts
/// no MPI. `now`: seconds since 1970. Returns the exit status: 0, whatever has become of the run. Throws
/// ConfigError for words that mean nothing, and where there is no run.
int run_status_command(std::span<const char* const> words, Filesystem& files, double now, std::ostream& out);

}  // namespace cxtrain
