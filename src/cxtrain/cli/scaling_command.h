#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/cli/job.h"

namespace cxtrain {

/// `scaling`: runs a study, or `report`, `collect` or `predict` of one. `words`: after the subcommand.
/// `program`: this program's file, which trains. Returns the exit status. Throws an Error.
int run_scaling_command(std::span<const char* const> words, const std::string& program, Filesystem& files,
                        std::ostream& out);

/// Whether these words of a command line ask for `scaling network`.
bool asks_for_network(std::span<const char* const> words);

/// `scaling network`: measures messages between ranks and nodes, and writes network.json. Starts the ranks
/// if the job has one. `words`: after `scaling network`. Returns the exit status. Collective.
int run_network_command(Job& job, std::span<const char* const> words, Filesystem& files, std::ostream& out);

}  // namespace cxtrain
