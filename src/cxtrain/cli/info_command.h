#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/cli/catalogue.h"
#include "cxtrain/config/options.h"

namespace cxtrain {

/// `cxtrain_mpi info`: the version, this machine's cores and GPUs, `extra_lines` ("LibTorch 2.11.0") from
/// callers that know more, and what may be named on the command line. With --hardware the hardware only; with
/// --json as JSON (the hardware's is the hardware file's). Returns the exit status.
int run_info(const Options& options, std::span<const std::string> extra_lines,
             const std::vector<CatalogueSection>& catalogue, std::ostream& out);

}  // namespace cxtrain
