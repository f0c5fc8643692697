#include "cxtrain/cli/command_line.h"

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/subcommands.h"
#include "cxtrain/cli/yaml_config.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// Whether the word may stand anywhere before or among the options. Commands with a grammar of their own
/// stand first.
bool is_subcommand(const std::string& word) {
  const Subcommand* found = find_subcommand(word);
  return found != nullptr && found->kind != Subcommand::Kind::files;
}

bool takes_phrase(const std::string& subcommand) {
  const Subcommand* found = find_subcommand(subcommand);
  return found != nullptr && found->kind == Subcommand::Kind::phrase;
}

class Lexer {
 public:
  Lexer(std::span<const char* const> args, std::vector<Problem>& problems)
      : args_(args.begin(), args.end()), problems_(problems) {}

  Tokens tokenize() {
    while (next_ < args_.size()) {
      const std::string& word = args_[next_++];
      if (word == "-h") {
        tokens_.help = std::max(tokens_.help, HelpAsked::brief);
      } else if (word.starts_with("--") && word.size() > 2) {
        read_option(word);
      } else if (word.starts_with("-")) {
        problems_.push_back(
            {word, "options start with two hyphens", "see --help", MessageCode::unknown_option});
      } else {
        read_word(word);
      }
    }
    return std::move(tokens_);
  }

 private:
  void read_word(const std::string& word) {
    if (have_subcommand_ && takes_phrase(tokens_.subcommand) && tokens_.phrase.empty()) {
      tokens_.phrase = word;
      return;
    }
    if (!have_subcommand_ && is_subcommand(word)) {
      have_subcommand_ = true;
      tokens_.subcommand = word;
      return;
    }
    // An option whose hyphens were forgotten, with or without its value: `max_epochs=3`, `max_epochs 3`.
    const std::string key = option_key(word);
    if (find_option(key) != nullptr || find_component_of(key) != nullptr) {
      problems_.push_back({word, "options start with two hyphens", "did you mean --" + word + "?",
                           MessageCode::unknown_option});
      const bool value = word.find('=') == std::string::npos && next_ < args_.size() &&
                         !args_[next_].starts_with("-") && !is_subcommand(args_[next_]);
      if (value) ++next_;
      return;
    }
    if (have_subcommand_) {
      problems_.push_back({word, "this word belongs to no option", "values follow their option: --key value",
                           MessageCode::unknown_option});
      return;
    }
    have_subcommand_ = true;
    const auto names = transformed(subcommands(), &Subcommand::name);
    const bool is_first_word_only = find_subcommand(word) != nullptr;
    problems_.push_back({word, "there is no such subcommand",
                         is_first_word_only ? "put it first" : did_you_mean_or_known(word, names),
                         MessageCode::unknown_option});
  }

  void read_option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string key = option_key(word);
    const std::string written = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);

    // `help --devices`; a plugin may have what is asked about.
    if (takes_phrase(tokens_.subcommand) && tokens_.phrase.empty() && key != "plugin" && key != "config") {
      tokens_.phrase = word;
      return;
    }
    if (key == "help") {
      tokens_.help = HelpAsked::full;
      return;
    }
    if (bool* flag = flag_of(key)) {
      *flag = true;
      if (value) problems_.push_back({written, "takes no value, found '" + *value + "'", ""});
      return;
    }
    const OptionEntry* entry = find_option(key);
    const bool optional_value = (entry != nullptr && !entry->bare.empty()) ||
                                find_component_of(key) != nullptr ||
                                key == "hardware";  // `info --hardware` has no file
    if (!value && next_ < args_.size() && takes(args_[next_], optional_value)) value = args_[next_++];
    if (key == "config") {
      if (value) tokens_.config_files.push_back(*value);
    } else if (value) {
      tokens_.settings.push_back({key, *value == "null" ? std::nullopt : value, written});
    } else if (optional_value) {
      const bool flag = entry == nullptr || entry->bare.empty();
      tokens_.settings.push_back({key, key == "hardware" ? "" : flag ? "true" : entry->bare, written});
    } else if (entry == nullptr) {
      tokens_.settings.push_back(
          {key, "", written});  // an unknown option is rejected by its name, not by its value
    }
    if (!value && !optional_value && (entry != nullptr || key == "config")) {
      problems_.push_back({written, "a value is missing",
                           "write " + written + "=" + (entry ? entry->placeholder : "FILE"),
                           MessageCode::missing_value});
    }
  }

  bool* flag_of(const std::string& key) {
    if (key == "version") return &tokens_.version;
    if (key == "print_config") return &tokens_.print_config;
    return nullptr;
  }

  /// Whether a word is the value of the option before it. Where a value is optional, a subcommand that has
  /// not been named yet is none: `cxtrain_mpi --json plan`.
  bool takes(const std::string& word, bool optional_value) const {
    if (word.starts_with("--") || word == "-h") return false;
    return !(optional_value && !have_subcommand_ && is_subcommand(word));
  }

  std::vector<std::string> args_;
  std::vector<Problem>& problems_;
  std::size_t next_ = 0;
  bool have_subcommand_ = false;
  Tokens tokens_;
};

/// Options that other subcommands take only.
void check_subcommand(const Tokens& tokens, std::vector<Problem>& problems) {
  for (const Setting& setting : tokens.settings) {
    const OptionEntry* entry = find_option(setting.key);
    if (entry == nullptr || takes_option(*entry, tokens.subcommand)) continue;
    problems.push_back({setting.written, "is not an option of " + tokens.subcommand,
                        "it belongs to " + entry->commands.substr(0, entry->commands.find(' ')),
                        MessageCode::unknown_option});
  }
}

/// `plan --hardware FILE`, but `info --hardware`.
void read_hardware(const Tokens& tokens, Options& options, std::vector<Problem>& problems) {
  for (const Setting& setting : tokens.settings) {
    if (setting.key != "hardware") continue;
    const bool has_file = !options.hardware_file.empty();
    if (tokens.subcommand == "info") {
      options.show_hardware = true;
      if (has_file)
        problems.push_back({setting.written, "info shows this machine and reads no file", "use plan",
                            MessageCode::invalid_file});
    } else if (tokens.subcommand == "plan" && !has_file) {
      problems.push_back({setting.written, "a value is missing", "write " + setting.written + "=FILE",
                          MessageCode::missing_value});
    }
  }
}

std::optional<std::string> read_config(const std::string& file, const ReadFile& read_file,
                                       std::vector<Problem>& problems) {
  try {
    if (auto text = read_file(file)) return text;
    problems.push_back({"--config", "the file " + file + " cannot be read",
                        "check the path and its permissions", MessageCode::invalid_file});
  } catch (const DataError& error) {
    problems.push_back({"--config", error.what(), "", message_code_of(error)});
  }
  return std::nullopt;
}

bool is_plugin(const Setting& setting) {
  const OptionEntry* entry = find_option(setting.key);
  return entry != nullptr && entry->key == "plugin";
}

/// Takes the plugins out of the settings of a file that belongs to another user, and appends a problem: the
/// code of a plugin that stayed would run as soon as the plugin is opened, which also `plan` and `--help` do.
void refuse_plugins_of_others(const std::string& file, std::vector<Setting>& settings,
                              std::vector<Problem>& problems) {
  Filesystem& files = real_filesystem();
  if (!files.status(file) || belongs_to_this_user(files, file)) return;
  const auto first = std::ranges::find_if(settings, is_plugin);
  if (first == settings.end()) return;
  problems.push_back({first->written, "the file belongs to another user, and a plugin is code that would run",
                      "name the plugin on the command line (--plugin), or copy the file",
                      MessageCode::conflicting_options});
  std::erase_if(settings, is_plugin);
}

void take(const std::vector<Setting>& settings, ParsedCommandLine& parsed) {
  for (const Setting& setting : settings) {
    const OptionEntry* entry = find_option(setting.key);
    if (entry != nullptr && entry->key == "model") parsed.model_given = setting.value.has_value();
  }
  apply_settings(settings, parsed.options, parsed.problems);
}

}  // namespace

Tokens tokenize(std::span<const char* const> args, std::vector<Problem>& problems) {
  return Lexer(args, problems).tokenize();
}

ParsedCommandLine read_command_line(std::span<const char* const> args, const ReadFile& read_file,
                                    const Options& defaults) {
  ParsedCommandLine parsed;
  parsed.options = defaults;
  std::vector<Problem>& problems = parsed.problems;
  const Tokens tokens = tokenize(args, problems);
  parsed.options.subcommand = tokens.subcommand;
  parsed.help = tokens.help;
  parsed.version = tokens.version;
  parsed.print_config = tokens.print_config;
  parsed.phrase = tokens.phrase;
  for (const std::string& file : tokens.config_files) {
    const auto text = read_config(file, read_file, problems);
    if (!text) continue;
    std::vector<Setting> settings = read_yaml(*text, file, problems);
    refuse_plugins_of_others(file, settings, problems);
    take(settings, parsed);
  }
  check_subcommand(tokens, problems);
  take(last_of_each(tokens.settings), parsed);
  read_hardware(tokens, parsed.options, problems);
  if (parsed.help != HelpAsked::none || parsed.version) problems.clear();
  return parsed;
}

ParsedCommandLine parse_command_line(std::span<const char* const> args, const ReadFile& read_file) {
  ParsedCommandLine parsed = read_command_line(args, read_file);
  if (!parsed.problems.empty()) throw ConfigError(std::move(parsed.problems));
  return parsed;
}

std::optional<std::string> read_text_file(const std::string& path) {
  constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;  // a configuration has a few kilobytes
  return read_small_file(path, kMaxConfigBytes);
}

}  // namespace cxtrain
