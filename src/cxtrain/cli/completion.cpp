#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cli/checkpoint_command.h"
#include "cxtrain/cli/help.h"
#include "cxtrain/cli/help_topics.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/repeatable_components.h"
#include "cxtrain/cli/subcommands.h"

namespace cxtrain {
namespace {

/// A word that the shell takes as it is. Plugins choose names freely, so any other name is left out.
bool is_plain(const std::string& word) {
  return !word.empty() && word.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_.-") == std::string::npos;
}

bool is_kind_of_value(const std::string& word) {
  constexpr std::array kKinds{"N", "X", "TEXT", "TIME", "PATH", "LIST"};
  return std::ranges::find(kKinds, word) != kKinds.end();
}

/// The words of "auto|cpu|gpu"; none for "N", "PATH" and other kinds of values.
std::vector<std::string> words_of(const std::string& placeholder) {
  if (placeholder == "BOOL") return {"true", "false"};
  std::vector<std::string> words;
  if (placeholder.find('|') == std::string::npos) return words;
  for (std::size_t begin = 0; begin <= placeholder.size();) {
    const std::size_t end = std::min(placeholder.find('|', begin), placeholder.size());
    const std::string word = placeholder.substr(begin, end - begin);
    if (word == "BOOL") {
      words.insert(words.end(), {"true", "false"});
    } else if (is_plain(word) && !is_kind_of_value(word)) {
      words.push_back(word);
    }
    begin = end + 1;
  }
  return words;
}

bool names_file(const std::string& placeholder) {
  return placeholder == "PATH" || placeholder == "FILE" || placeholder == "DIR";
}

/// What may be completed.
struct Completable {
  std::map<std::string, std::string> options;              ///< "--max_epochs": its help
  std::map<std::string, std::vector<std::string>> values;  ///< "--accelerator": its words
  std::set<std::string> files;                             ///< options whose value is a path
};

void add_option_words(Completable& words) {
  for (const OptionEntry& entry : option_table()) {
    if (!entry.canonical.empty()) continue;
    const std::string option = "--" + short_key(entry);
    words.options[option] = entry.help;
    if (names_file(entry.placeholder)) words.files.insert(option);
    std::vector<std::string> values = words_of(entry.placeholder);
    if (!values.empty()) words.values[option] = std::move(values);
  }
  words.options["--config"] = "read options from a YAML file";
  words.files.insert("--config");
  for (const char* flag : {"--help", "--version", "--print_config"}) words.options[flag] = "";
}

void add_component_words(const std::vector<ComponentSection>& sections, Completable& words) {
  for (const ComponentSection& section : sections) {
    const bool listed = is_repeatable_section(section.option);
    for (const NamedComponent& component : section.components) {
      if (!is_plain(component.name)) continue;
      if (listed) {
        words.options[choosing_option(section, component)] = component.help;
      } else {
        words.values["--" + section.option].push_back(component.name);
      }
      for (const ArgumentSpec& spec : component.arguments) {
        if (!is_plain(spec.name)) continue;
        const std::string option = "--" + argument_name(section, component, spec);
        words.options[option] = spec.help;
        std::vector<std::string> values = words_of(spec.shown);
        if (!values.empty()) words.values[option] = std::move(values);
      }
    }
  }
}

/// A text in single quotes, on one line.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "'";
}

/// The part of both scripts that looks at the word before: FUNCTION_words and FUNCTION_files offer values.
std::string cases(const Completable& words, const std::string& function) {
  const auto line = [&](const std::string& before, const std::vector<std::string>& values) {
    return "    " + before + ") " + function + "_words " + joined(values, " ") + "; return ;;\n";
  };
  std::string text;
  for (const auto& [option, values] : words.values) text += line(option, values);
  for (const std::string& option : words.files)
    text += "    " + option + ") " + function + "_files; return ;;\n";
  text += line("help", transformed(help_topics(), &HelpTopic::name));
  text += line("completion", {"bash", "zsh"});
  text += line("checkpoint", checkpoint_actions());
  return text + "  esac\n";
}

std::string bash_script(const std::string& program, const std::string& function, const Completable& words) {
  std::string options;
  for (const auto& [option, help] : words.options) options += " " + option;
  return "# Completion for bash: source <(" + program + " completion bash)\n" +           //
         function + "_words() { COMPREPLY=($(compgen -W \"$*\" -- \"$current\")); }\n" +  //
         function + "_files() { COMPREPLY=($(compgen -f -- \"$current\")); }\n" +         //
         function +
         "() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  # bash takes the sign of --option=value for a word.\n"
         "  if [[ $current == = ]]; then\n    current=\n"
         "  elif [[ $previous == = ]]; then\n    previous=${COMP_WORDS[COMP_CWORD-2]}\n  fi\n"
         "  case $previous in\n" +
         cases(words, function) + "  if [[ $current == -* ]]; then\n    " + function + "_words" + options +
         "\n  else\n    " + function + "_words " +
         joined(transformed(subcommands(), &Subcommand::name), " ") + "\n  fi\n}\ncomplete -o default -F " +
         function + " " + program + "\n";
}

std::string zsh_script(const std::string& program, const std::string& function, const Completable& words) {
  std::string text = "#compdef " + program + "\n# Completion for zsh: source <(" + program +
                     " completion zsh), after compinit\n" +  //
                     function + "_words() { compadd -- \"$@\" }\n" + function + "_files() { _files }\n" +
                     function + "() {\n  local -a options subcommands\n  options=(\n";
  for (const auto& [option, help] : words.options) text += "    " + quoted(option + ":" + help) + "\n";
  text += "  )\n  subcommands=(\n";
  for (const Subcommand& subcommand : subcommands())
    text += "    " + quoted(subcommand.name + ":" + subcommand.purpose) + "\n";
  return text + "  )\n  case $words[CURRENT-1] in\n" + cases(words, function) +
         "  if [[ $PREFIX == -* ]]; then\n"
         "    _describe -o option options\n"
         "  elif (( CURRENT == 2 )); then\n"
         "    _describe subcommand subcommands\n"
         "  else\n"
         "    _files\n"
         "  fi\n}\ncompdef " +
         function + " " + program + "\n";
}

}  // namespace

std::string completion_script(const std::string& shell, const HelpSource& source) {
  const std::string program = is_plain(source.program) ? source.program : "cxtrain_mpi";
  std::string function = "_" + program;
  std::replace_if(
      function.begin(), function.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  Completable words;
  add_option_words(words);
  add_component_words(source.sections, words);
  if (shell == "bash") return bash_script(program, function, words);
  if (shell == "zsh") return zsh_script(program, function, words);
  throw ConfigError("", "completion: '" + shortened(shell, 100) + "' is neither bash nor zsh",
                    "write completion bash, or completion zsh", MessageCode::unknown_name);
}

}  // namespace cxtrain
