#include "cxtrain/cli/command_line.h"

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
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

std::optional<std::string> read_config(const std::string& file, const ReadFile& read_file,
                                       std::vector<Problem>& problems) {
  try {
    if (auto text = read_file(file)) return text;
    problems.push_back(
        {"--config", "the file " + file + " cannot be read", "check the path and its permissions"});
  } catch (const DataError& error) {
    problems.push_back({"--config", error.what(), ""});
  }
  return std::nullopt;
}

void take(const std::vector<Setting>& settings, ParsedCommandLine& parsed) {
  for (const Setting& setting : settings) {
    const OptionEntry* entry = find_option(setting.key);
    if (entry != nullptr && entry->key == "model") parsed.model_given = setting.value.has_value();
  }
  apply_settings(settings, parsed.options, parsed.problems);
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
  for (const std::string& file : words.config_files) {
    if (const auto text = read_config(file, read_file, problems))
      take(read_yaml(*text, file, problems), parsed);
  }
  check_subcommand(words, problems);
  take(last_of_each(words.settings), parsed);
  read_hardware(words, parsed.options, problems);
  if (parsed.help || parsed.version) problems.clear();
  return parsed;
}

ParsedCommandLine parse_command_line(std::span<const char* const> args, const ReadFile& read_file) {
  ParsedCommandLine parsed = read_command_line(args, read_file);
  if (!parsed.problems.empty()) throw ConfigError(std::move(parsed.problems));
  return parsed;
}

std::optional<std::string> read_text_file(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 20;  // a configuration has a few kilobytes
  return read_small_file(path, kMost);
}

}  // namespace cxtrain
