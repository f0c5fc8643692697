#pragma once

#include <iosfwd>
#include <span>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

/// `cxtrain_mpi report RUN... [--out FILE]`: runs as one HTML page (report/report_page.h), by default
/// report.html in the first run's folder. Needs no GPU, starts no MPI. `now`: seconds since 1970. Returns the
/// exit status. Throws ConfigError for words that mean nothing, where there is no run, and where the file
/// cannot be written.
int run_report_command(std::span<const char* const> words, Filesystem& files, double now, std::ostream& out);

/// `cxtrain_mpi status PATH [--json]`: how the run in a folder is (report/run_status.h). Needs no GPU, starts
/// no MPI. Draws curves where stdout is a terminal. Returns the exit status: 0, however the run has
/// ended. Throws ConfigError for unknown words, and if the folder has no run.
int run_status_command(std::span<const char* const> words, std::ostream& out);

}  // namespace cxtrain
