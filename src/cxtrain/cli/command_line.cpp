#include "cxtrain/cli/command_line.h"

#include <fstream>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/help_text.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/words.h"
#include "cxtrain/cli/yaml_config.h"

namespace cxtrain {
namespace {

/// Options that other subcommands take only.
void check_subcommand(const Words& words, std::vector<Problem>& problems) {
  for (const Setting& setting : words.settings) {
    const OptionEntry* entry = find_option(setting.key);
    if (entry == nullptr || entry->commands.empty()) continue;
    const std::string commands = " " + entry->commands + " ";
    if (commands.find(" " + words.subcommand + " ") != std::string::npos) continue;
    problems.push_back({setting.written, "is no option of " + words.subcommand,
                        "it belongs to " + entry->commands.substr(0, entry->commands.find(' '))});
  }
}

/// `plan --hardware FILE`, but `info --hardware`.
void read_hardware(const Words& words, Options& options, std::vector<Problem>& problems) {
  for (const Setting& setting : words.settings) {
    if (setting.key != "hardware") continue;
    const bool has_file = !options.hardware_file.empty();
    if (words.subcommand == "info") {
      options.show_hardware = true;
      if (has_file)
        problems.push_back({setting.written, "info shows this machine and reads no file", "use plan"});
    } else if (words.subcommand == "plan" && !has_file) {
      problems.push_back({setting.written, "a value is missing", "write " + setting.written + "=FILE"});
    }
  }
}

}  // namespace

ParsedCommandLine read_command_line(std::span<const char* const> args, const ReadFile& read_file) {
  ParsedCommandLine parsed;
  std::vector<Problem>& problems = parsed.problems;
  const Words words = sort_words(args, problems);
  parsed.options.subcommand = words.subcommand;
  parsed.help = words.help;
  parsed.version = words.version;
  parsed.print_config = words.print_config;
  parsed.help_text = help_text(words.subcommand);
  if (parsed.help || parsed.version) {
    problems.clear();
    return parsed;
  }

  for (const std::string& file : words.config_files) {
    if (const auto text = read_file(file)) {
      apply_settings(read_yaml(*text, file, problems), parsed.options, problems);
    } else {
      problems.push_back(
          {"--config", "the file " + file + " cannot be read", "check the path and its permissions"});
    }
  }
  check_subcommand(words, problems);
  apply_settings(words.settings, parsed.options, problems);
  read_hardware(words, parsed.options, problems);
  return parsed;
}

ParsedCommandLine parse_command_line(std::span<const char* const> args, const ReadFile& read_file) {
  ParsedCommandLine parsed = read_command_line(args, read_file);
  if (!parsed.problems.empty()) throw ConfigError(std::move(parsed.problems));
  return parsed;
}

std::optional<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

}  // namespace cxtrain
