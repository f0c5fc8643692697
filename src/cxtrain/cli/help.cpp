#include "cxtrain/cli/help.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/help_page.h"
#include "cxtrain/cli/help_topics.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/repeatable_components.h"
#include "cxtrain/cli/subcommands.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/doctor/checks.h"

namespace cxtrain {
namespace {

/// The options of the brief help: what most command lines have.
constexpr std::array kCommonOptions{"model",
                                    "data.path",
                                    "data.batch_size",
                                    "trainer.devices",
                                    "trainer.strategy",
                                    "trainer.precision",
                                    "trainer.max_epochs",
                                    "ckpt_path",
                                    "plugin"};

std::string in_brackets(const std::string& text) { return text.empty() ? "" : " [" + text + "]"; }

std::string help_with_default(const OptionEntry& entry, const Options& defaults) {
  return entry.help + in_brackets(default_text(entry, defaults));
}

void add_option(HelpPage& page, const OptionEntry& entry, const Options& defaults) {
  page.entry(with_value(entry), help_with_default(entry, defaults));
}

/// The options that stand beside the table.
void add_other_options(HelpPage& page) {
  page.entry("--config FILE",
             "read options from a YAML file (repeatable; later files and the command line win)");
  page.entry("--print_config", "print the resulting configuration as YAML, and end");
  page.entry("--version", "print the version, and end");
  page.entry("-h, --help", "print help, and end: -h one screen, --help everything");
}

void add_usage(HelpPage& page, const Subcommand& subcommand, const std::string& program) {
  page.paragraph(program + " " + usage_of(subcommand.name));
  page.paragraph(subcommand.purpose, 4);
}

void add_arguments(HelpPage& page, const ComponentSection& section, const NamedComponent& component) {
  for (const ArgumentSpec& spec : component.arguments)
    page.entry("  --" + argument_name(section, component, spec) + " " + spec.shown,
               spec.help + in_brackets(spec.default_value));
}

/// Whether the options name the component, so that its arguments are shown.
bool is_named(const HelpSource& source, const ComponentSection& section, const NamedComponent& component) {
  if (!is_repeatable_section(section.option))
    return component.name == component_named_by(source.options, section);
  const auto& listed = section.option == "callbacks" ? source.options.callbacks : source.options.loggers;
  return std::ranges::any_of(
      listed, [&](const NamedOptions& one) { return one.registered_name() == component.name; });
}

/// Every component, with the arguments of those that the options name, or of all.
void add_components(HelpPage& page, const HelpSource& source, bool all_arguments) {
  for (const ComponentSection& section : source.sections) {
    page.heading(section.title + " (--" + section.option +
                 (is_repeatable_section(section.option) ? ".NAME)" : ")"));
    for (const NamedComponent& component : section.components) {
      page.entry(component.name, component.help);
      if (all_arguments || is_named(source, section, component)) add_arguments(page, section, component);
    }
  }
}

/// A command with a grammar of its own explains it itself.
std::string help_of(const Subcommand& command) {
  const char* const word = "--help";
  std::ostringstream text;
  command.run({&word, 1}, text);
  return text.str();
}

void add_group(HelpPage& page, const std::string& group, const Options& defaults) {
  for (const OptionEntry& entry : option_table()) {
    if (entry.group != group) continue;
    add_option(page, entry, defaults);
    if (!entry.details.empty()) page.paragraph(entry.details, 6);
  }
}

std::string topic_page(const HelpTopic& topic, const HelpSource& source) {
  if (topic.name == "reference") return reference_page(source);
  HelpPage page(source.width);
  page.line(topic.name + ": " + topic.purpose);
  page.line();
  if (!topic.group.empty()) {
    add_group(page, topic.group, source.defaults);
  } else if (topic.meanings != nullptr) {
    for (const Meaning& one : topic.meanings()) page.entry(one.name, one.meaning);
  } else {
    for (const doctor::Check& check : doctor::all_checks())
      page.entry(std::string(check.id), std::string(check.title) + ". " + std::string(check.why));
  }
  return page.text();
}

/// As a YAML file has it: "trainer.max_epochs" -> "trainer: {max_epochs: N}".
std::string in_yaml(const OptionEntry& entry) {
  const std::size_t dot = entry.key.find('.');
  const std::string name =
      entry.key.substr(dot == std::string::npos ? 0 : dot + 1) + ": " + entry.placeholder;
  return dot == std::string::npos ? name : entry.key.substr(0, dot) + ": {" + name + "}";
}

std::string option_page(const OptionEntry& entry, const HelpSource& source) {
  HelpPage page(source.width);
  page.line(with_value(entry));
  page.paragraph(help_with_default(entry, source.defaults), 4);
  if (!entry.details.empty()) page.paragraph(entry.details, 4);
  page.line();
  if (entry.saved) page.entry("in YAML", in_yaml(entry));
  page.entry("subcommands", entry.commands.empty() ? "all" : entry.commands);
  std::string older;
  for (const OptionEntry& other : option_table()) {
    if (other.canonical == entry.key) older += (older.empty() ? "--" : ", --") + short_key(other);
  }
  if (!older.empty()) page.entry("older names", older);
  const auto topics = help_topics();
  const auto topic = std::ranges::find(topics, entry.group, &HelpTopic::group);
  if (topic != topics.end()) page.entry("related", source.program + " help " + topic->name);
  return page.text();
}

std::string component_page(const ComponentSection& section, const NamedComponent& component,
                           const HelpSource& source) {
  HelpPage page(source.width);
  page.line(choosing_option(section, component));
  page.paragraph(component.help, 4);
  page.line();
  add_arguments(page, section, component);
  return page.text();
}

/// The component that a word names: "gpt", "model.gpt", "callbacks.early_stopping"; or one of its arguments:
/// "optimizer.lr", "callbacks.early_stopping.patience", of the first component that has it.
std::optional<std::string> find_component_page(const std::string& word, const HelpSource& source) {
  for (const ComponentSection& section : source.sections) {
    for (const NamedComponent& component : section.components) {
      if (word == component.name || word == section.option + "." + component.name)
        return component_page(section, component, source);
    }
  }
  for (const ComponentSection& section : source.sections) {
    for (const NamedComponent& component : section.components) {
      for (const ArgumentSpec& spec : component.arguments) {
        if (word == argument_name(section, component, spec))
          return component_page(section, component, source);
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> words_of_help(const HelpSource& source) {
  std::vector<std::string> words = option_names();
  for (const HelpTopic& topic : help_topics()) words.push_back(topic.name);
  for (const Subcommand& subcommand : subcommands()) words.push_back(subcommand.name);
  for (const ComponentSection& section : source.sections) {
    for (const NamedComponent& component : section.components) words.push_back(component.name);
  }
  return words;
}

std::string list_of_topics(const HelpSource& source) {
  HelpPage page(source.width);
  page.line(source.program + " help TOPIC      one of the topics below");
  page.line(source.program + " help OPTION     such as max_epochs or data.batch_size");
  page.line(source.program + " help COMPONENT  such as gpt, adamw or early_stopping");
  page.heading("Topics");
  for (const HelpTopic& topic : help_topics()) page.entry(topic.name, topic.purpose);
  return page.text();
}

}  // namespace

std::string brief_help(const std::string& program, const Options& defaults, std::size_t width) {
  HelpPage page(width);
  page.line("Trains LibTorch models on one core, many GPUs or many nodes.");
  page.line();
  page.line(program + " [SUBCOMMAND] [--model NAME] [--OPTION VALUE ...]");
  page.line("mpirun -np N " + program + " ...     srun --mpi=pmix " + program + " ...");
  page.heading("Subcommands");
  for (const Subcommand& subcommand : subcommands()) page.entry(subcommand.name, subcommand.purpose);
  page.heading("Common options");
  for (const char* key : kCommonOptions) add_option(page, *find_option(key), defaults);
  page.entry("--optimizer.lr X", "learning rate");
  page.entry("--config FILE", "read options from a YAML file");
  page.heading("Examples");
  page.line("  " + program + " --model gpt --data.path book.txt --devices 4 --max_epochs 3");
  page.line("  " + program + " slurm-script --nodes 2 --gpus-per-node 4 --model gpt --submit");
  page.heading("More: " + program + " fit --help, help TOPIC, help OPTION, help (the topics)");
  return page.text();
}

std::string subcommand_help(const std::string& name, const HelpSource& source) {
  const Subcommand& subcommand = *find_subcommand(name);
  HelpPage page(source.width);
  add_usage(page, subcommand, source.program);
  if (subcommand.kind == Subcommand::Kind::phrase) return page.text();
  if (subcommand.run != nullptr) return help_of(subcommand);
  if (subcommand.kind == Subcommand::Kind::look) {
    page.heading("Options of " + name);
    for (const OptionEntry& entry : option_table()) {
      if (is_own_option(entry, name)) add_option(page, entry, source.defaults);
    }
    page.line();
    page.paragraph(name + " reads the options of fit, too. " + source.program + " fit --help lists them.");
    return page.text();
  }
  page.line();
  page.paragraph(
      "Options have the names of the YAML file. The prefix `trainer.` may be left out; `-` and `_` are the "
      "same; `null` resets an option. Values in brackets are defaults. `help OPTION` says more.");
  std::string group;
  for (const OptionEntry& entry : option_table()) {
    if (!takes_option(entry, name) || !entry.canonical.empty()) continue;
    if (entry.group != group) page.heading(entry.group);
    group = entry.group;
    add_option(page, entry, source.defaults);
  }
  add_other_options(page);
  add_components(page, source, false);
  page.line();
  page.paragraph("For arguments of a component: " + source.program +
                 " help COMPONENT. For older names of options: " + source.program + " help older.");
  return page.text();
}

std::string components_text(const HelpSource& source) {
  HelpPage page(source.width);
  add_components(page, source, true);
  return page.text();
}

std::string help_on(const std::string& word, const HelpSource& source) {
  if (word.empty()) return list_of_topics(source);
  for (const HelpTopic& topic : help_topics()) {
    if (topic.name == word) return topic_page(topic, source);
  }
  if (find_subcommand(word) != nullptr) return subcommand_help(word, source);
  std::string key = word.substr(word.starts_with("--") ? 2 : 0);
  std::ranges::replace(key, '-', '_');
  if (const OptionEntry* entry = find_option(key)) {
    const OptionEntry* canonical = find_option(entry->canonical);
    return option_page(canonical != nullptr ? *canonical : *entry, source);
  }
  if (const auto page = find_component_page(key, source)) return *page;
  throw ConfigError("", "help: there is no topic, option or component '" + shortened(word, 100) + "'",
                    did_you_mean(word, words_of_help(source)), MessageCode::unknown_name);
}

}  // namespace cxtrain
