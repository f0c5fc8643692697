#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cxtrain/cli/component_help.h"
#include "cxtrain/config/options.h"

namespace cxtrain {

/// What every page of help is made from.
struct HelpSource {
  std::string program;  ///< as the user typed it: "cxtrain_mpi"
  Options options;      ///< of the command line: arguments of named components are shown
  Options defaults;     ///< of the program
  std::vector<ComponentSection> sections;
  std::size_t width = 100;  ///< columns of a line
};

/// `-h`: one screen of at most 40 lines. `program`: as the user typed it; `defaults`: of
/// the program; `width`: columns of a line.
std::string brief_help(const std::string& program, const Options& defaults, std::size_t width);

/// `SUBCOMMAND --help`: usage, then the options of the subcommand. A subcommand that trains shows all options
/// and components; any other shows its own options. `name` is one of `subcommands()` that reads
/// options.
std::string subcommand_help(const std::string& name, const HelpSource& source);

/// All components with all their arguments, for `info`.
std::string components_text(const HelpSource& source);

/// `help [WORD]`: a topic, a subcommand, an option or a component with its arguments; without a word the
/// topics. Throws ConfigError with the nearest name for an unknown word.
std::string help_on(const std::string& word, const HelpSource& source);

/// `help reference`: everything as one page of Markdown (docs/reference.md).
std::string reference_page(const HelpSource& source);

/// A script for `bash` or `zsh` that completes subcommands, options, names of components and the values of
/// options that have a few: `source <(cxtrain_mpi completion bash)`. Throws ConfigError for another shell.
std::string completion_script(const std::string& shell, const HelpSource& source);

}  // namespace cxtrain
