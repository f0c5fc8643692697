#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/config/options.h"

/// The options of config/options.h as a table: the command line, YAML files, `--help`, completion and
/// `config.yaml` read it.
namespace cxtrain {

struct OptionEntry {
  std::string group;        ///< heading in --help
  std::string key;          ///< "trainer.max_epochs"
  std::string placeholder;  ///< what help shows for the value
  std::string help;         ///< one line
  std::string details;      ///< for `help OPTION`: what does not fit into the line; may be empty
  std::string bare;         ///< what the option means without a value; empty: it needs one
  bool repeatable = false;  ///< each further value adds to a list
  bool saved = true;        ///< part of config.yaml
  std::string commands;     ///< the only subcommands that take it, separated by blanks; empty: all
  std::string canonical;    ///< for an older name: the key of the option that it sets; empty: itself

  /// Sets the member from a text; returns why not, or "".
  std::function<std::string(Options&, const std::string&)> read;
  /// `null`: an optional member becomes absent, any other its default.
  std::function<void(Options&)> reset;
  /// The values to save: one, or a list's; no value stands for null.
  std::function<std::optional<std::vector<std::string>>(const Options&)> write;
};

/// All options, in the order of --help.
std::span<const OptionEntry> option_table();

/// The key as a command line has it: "max_epochs" for "trainer.max_epochs".
std::string short_key(const OptionEntry& entry);
/// "--max_epochs N", "--quiet[=BOOL]".
std::string with_value(const OptionEntry& entry);
/// "32-true"; empty for an option without a default, or that config.yaml lacks.
std::string default_text(const OptionEntry& entry, const Options& defaults);
/// Whether only some subcommands take the option, and this one is among them.
bool is_own_option(const OptionEntry& entry, const std::string& subcommand);
inline bool takes_option(const OptionEntry& entry, const std::string& subcommand) {
  return entry.commands.empty() || is_own_option(entry, subcommand);
}

/// The entry for a key with underscores: dotted, or a Trainer option without `trainer.`; a component's name
/// is also its `.name` and, as in LightningCLI's files, its `.class_path`. Null for none.
const OptionEntry* find_option(std::string_view key);

/// A component that is chosen by name and takes arguments of its own (`model`, `data`, `optimizer`,
/// `lr_scheduler`, `strategy`), or another key under which one's arguments are given.
struct ComponentEntry {
  std::string key;            ///< before its arguments: "model" for --model.layers
  std::string option = {};    ///< key of the option that names it: "model", "trainer.strategy"; empty: none
  std::string alias_of = {};  ///< of another key: the component's own; "strategy" for `ddp`
  bool saved = true;          ///< whether arguments stand under this key in config.yaml
  std::string (*name)(const Options&) = nullptr;  ///< of the component; null without `option`
  std::map<std::string, std::string>& (*args)(Options&);
};
std::span<const ComponentEntry> component_table();

/// The component whose argument the key is ("model.layers"), or null; keys in option_table() are none.
const ComponentEntry* find_component_of(std::string_view key);

/// The one name of an option or an argument that has several: "trainer.max_epochs" for "max_epochs",
/// "strategy.overlap" for "ddp.overlap". An older name of an option, and what nobody knows, are left as they
/// are.
std::string canonical_key(const std::string& key);

/// Every word that may follow `--`, older names apart, for "did you mean".
std::vector<std::string> option_names();

}  // namespace cxtrain
