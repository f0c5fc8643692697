#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/setting.h"
#include "cxtrain/config/options.h"

namespace cxtrain {

/// `-h`, or `--help`.
enum class HelpAsked { none, brief, full };

struct ParsedCommandLine {
  Options options;
  HelpAsked help = HelpAsked::none;
  bool version = false;
  bool print_config = false;
  bool model_given = false;       ///< whether a file or an option names the model
  std::string phrase;             ///< what follows `help` and `completion`; may be empty
  std::vector<Problem> problems;  ///< what was refused; the options then hold all else
};

/// The file's text, or nothing when it cannot be read; may throw a DataError that says why.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

/// Reads the words after the program's name: a subcommand, then options. Options change the values of the
/// --config files, and these change `defaults`. A later file wins over an earlier file, and a later setting
/// of an option over an earlier setting. With --help or --version no option is rejected. Reads nothing except
/// by `read_file`.
///
///     --key value   --key=value   --key-with-hyphens   --flag (is true)   --fast_dev_run (is 1)   --key null
///     (resets)
ParsedCommandLine read_command_line(std::span<const char* const> args, const ReadFile& read_file,
                                    const Options& defaults = {});
/// The same; throws what was refused.
ParsedCommandLine parse_command_line(std::span<const char* const> args, const ReadFile& read_file);

/// Reads a real file of options, for parse_command_line. Throws DataError for anything but a regular file of
/// at most a mebibyte.
std::optional<std::string> read_text_file(const std::string& path);

/// The command line sorted into what it says, before any of it is understood.
struct Tokens {
  std::string subcommand = "fit";
  std::string phrase;  ///< the word behind `help` or `completion`
  HelpAsked help = HelpAsked::none;
  bool version = false, print_config = false;
  std::vector<std::string> config_files;
  std::vector<Setting> settings;  ///< the options, in their order
};

/// Cuts the words into options and values. Appends to `problems` what fits nowhere: unknown subcommands (with
/// the nearest name), stray words, values that are missing.
Tokens tokenize(std::span<const char* const> args, std::vector<Problem>& problems);

}  // namespace cxtrain
