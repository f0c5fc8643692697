#pragma once

#include <string>

#include "cxtrain/cli/help.h"

namespace cxtrain {

/// A script for `bash` or `zsh` that completes subcommands, options, names of components and the values of
/// options that have a few: `source <(cxtrain_mpi completion bash)`. Throws ConfigError for another shell.
std::string completion_script(const std::string& shell, const HelpSource& source);

}  // namespace cxtrain
