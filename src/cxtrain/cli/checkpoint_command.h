#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"

/// `cxtrain_mpi checkpoint ACTION PATH ...`: looks at checkpoints and files of weights, and converts them. It
/// needs no GPU, starts no MPI, and reads no configuration.
namespace cxtrain {

/// Carries out what the words after "checkpoint" ask for, and returns the exit status: 0, or 1 where `diff`
/// has found a difference. Throws ConfigError for words that mean nothing, CheckpointError for what cannot be
/// read or written.
int run_checkpoint_command(std::span<const char* const> words, Filesystem& files, std::ostream& out);

/// "inspect", "verify", ...
std::vector<std::string> checkpoint_actions();

}  // namespace cxtrain
