#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

inline constexpr const char* kScaling = "scaling";

/// `scaling`: runs a study, or `report`, `collect` or `predict` of one. `words`: after the subcommand.
/// `program`: this program's file, which trains. Returns the exit status. Throws an Error.
int run_scaling_command(std::span<const char* const> words, const std::string& program, Filesystem& files,
                        std::ostream& out);

}  // namespace cxtrain
