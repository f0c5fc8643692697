#pragma once

#include <span>
#include <string>
#include <vector>

#include "cxtrain/cli/setting.h"

namespace cxtrain {

/// The command line sorted into what it says, before any of it is understood.
struct Words {
  std::string subcommand = "fit";
  bool help = false, version = false, print_config = false;
  std::vector<std::string> config_files;
  std::vector<Setting> settings;  ///< the options, in their order
};

/// The subcommands there are.
std::span<const std::string> subcommands();

/// Cuts the words into options and values. Appends to `problems` what fits nowhere: unknown subcommands (with
/// the nearest name), stray words, values that are missing.
Words sort_words(std::span<const char* const> args, std::vector<Problem>& problems);

}  // namespace cxtrain
