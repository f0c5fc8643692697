#pragma once

#include <string>

namespace cxtrain {

/// What `cxtrain_mpi SUBCOMMAND --help` prints: usage, then the options of the subcommand in groups, at most
/// 100 columns wide.
std::string help_text(const std::string& subcommand);

/// Appends "  left      help", the help wrapped in its column.
void append_help_entry(std::string& out, const std::string& left, const std::string& help);

}  // namespace cxtrain
