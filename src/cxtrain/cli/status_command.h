#pragma once

#include <iosfwd>
#include <span>

namespace cxtrain {

/// `cxtrain_mpi status PATH [--json]`: how the run in a folder is (report/run_status.h). Needs no GPU, starts
/// no MPI. Draws curves where stdout is a terminal. Returns the exit status: 0, however the run has
/// ended. Throws ConfigError for unknown words, and if the folder has no run.
int run_status_command(std::span<const char* const> words, std::ostream& out);

}  // namespace cxtrain
