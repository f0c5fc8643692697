#include <span>
#include <string>

#include "cxtrain/cli/help.h"
#include "cxtrain/cli/help_topics.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/subcommands.h"
#include "cxtrain/doctor/checks.h"

/// The tables of the program as Markdown.
namespace cxtrain {
namespace {

/// A text inside a table.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::string code(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result.empty() ? "" : "`" + result + "`";
}

std::string row(const std::string& first, const std::string& second, const std::string& third) {
  return "| " + first + " | " + second + " | " + third + " |\n";
}

std::string table_head(const std::string& first, const std::string& second, const std::string& third) {
  return "\n" + row(first, second, third) + "|---|---|---|\n";
}

std::string subcommands_section() {
  std::string text = "\n## Subcommands\n" + table_head("subcommand", "arguments", "purpose");
  for (const Subcommand& one : subcommands()) text += row(code(one.name), code(one.usage), cell(one.purpose));
  return text;
}

std::string row_of(const OptionEntry& entry, const Options& defaults) {
  std::string help = entry.help;
  if (!entry.details.empty()) help += ". " + entry.details;
  if (!entry.commands.empty()) help += " (" + entry.commands + ")";
  return row(code(with_value(entry)), code(default_text(entry, defaults)), cell(help));
}

std::string options_section(const Options& defaults) {
  std::string text = "\n## Options\n";
  std::string group;
  for (const OptionEntry& entry : option_table()) {
    if (entry.group != group)
      text += "\n### " + entry.group + "\n" + table_head("option", "default", "meaning");
    group = entry.group;
    text += row_of(entry, defaults);
  }
  return text;
}

std::string components_section(const std::vector<ComponentSection>& sections) {
  std::string text = "\n## Components\n";
  for (const ComponentSection& section : sections) {
    text += "\n### " + section.title + "\n" + table_head("name or argument", "default", "meaning");
    for (const NamedComponent& component : section.components) {
      text += row(code(choosing_option(section, component)), "", cell(component.help));
      for (const ArgumentSpec& spec : component.arguments) {
        text += row(code("--" + argument_name(section, component, spec) + " " + spec.shown),
                    code(spec.default_value), cell(spec.help));
      }
    }
  }
  return text;
}

std::string meanings_section(const std::string& heading, const char* first,
                             std::span<const Meaning> meanings) {
  std::string text = "\n## " + heading + "\n\n| " + first + " | meaning |\n|---|---|\n";
  for (const Meaning& one : meanings) text += "| " + code(one.name) + " | " + cell(one.meaning) + " |\n";
  return text;
}

std::string checks_section() {
  std::string text = "\n## Checks of doctor\n" + table_head("check", "finding", "why it matters");
  for (const doctor::Check& check : doctor::all_checks())
    text += row(code(std::string(check.id)), cell(std::string(check.title)), cell(std::string(check.why)));
  return text;
}

}  // namespace

std::string reference_page(const HelpSource& source) {
  return "# Reference\n\n`" + source.program + " help reference` prints this page.\n" +
         subcommands_section() + options_section(source.defaults) + components_section(source.sections) +
         meanings_section("Exit statuses", "status", exit_statuses()) +
         meanings_section("Codes of errors", "code", error_codes()) +
         meanings_section("Environment", "variable", environment_variables()) +
         meanings_section("Ways to start ranks", "command", ways_to_launch()) +
         meanings_section("Ways to resume", "option", ways_to_resume()) + checks_section();
}

}  // namespace cxtrain
