#include "cxtrain/cli/option_table.h"

#include <algorithm>
#include <array>
#include <map>

#include "cxtrain/cli/listed_components.h"
#include "cxtrain/cli/option_binding.h"

namespace cxtrain {
namespace {

OptionTable make_table() {
  OptionTable table;
  add_component_options(table);
  add_device_options(table);
  add_length_options(table);
  add_optimisation_options(table);
  add_output_options(table);
  add_older_names(table);
  add_general_options(table);
  add_batch_job_options(table);
  return table;
}

using Index = std::map<std::string, const OptionEntry*, std::less<>>;

/// Every key under which an option is found.
Index make_index() {
  Index index;
  for (const OptionEntry& entry : option_table()) index.emplace(entry.key, &entry);
  for (const OptionEntry& entry : option_table()) {
    index.emplace(short_key(entry), &entry);
  }
  for (const ComponentEntry& component : component_table()) {
    if (component.option.empty()) continue;
    for (const char* name : {".name", ".class_path"})
      index.emplace(component.key + name, index.at(component.option));
  }
  return index;
}

}  // namespace

std::string short_key(const OptionEntry& entry) {
  constexpr std::string_view kTrainer = "trainer.";
  return entry.key.substr(entry.key.starts_with(kTrainer) ? kTrainer.size() : 0);
}

std::string with_value(const OptionEntry& entry) {
  return "--" + short_key(entry) +
         (entry.bare.empty() ? " " + entry.placeholder : "[=" + entry.placeholder + "]");
}

std::string default_text(const OptionEntry& entry) {
  const auto values = entry.saved ? entry.write(Options{}) : std::nullopt;
  return values && !values->empty() ? values->front() : "";
}

bool is_own_option(const OptionEntry& entry, const std::string& subcommand) {
  return (" " + entry.commands + " ").find(" " + subcommand + " ") != std::string::npos;
}

std::span<const OptionEntry> option_table() {
  static const OptionTable table = make_table();
  return table;
}

const OptionEntry* find_option(std::string_view key) {
  static const Index index = make_index();
  const auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

std::span<const ComponentEntry> component_table() {
  using Args = std::map<std::string, std::string>&;
  static constexpr auto name_of_strategy = [](const Options& o) { return o.trainer.strategy.value_or(""); };
  static const std::array<ComponentEntry, 8> components{{
      {.key = "model",
       .option = "model",
       .name = [](const Options& o) { return o.model.name; },
       .args = [](Options& o) -> Args { return o.model.args; }},
      {.key = "data",
       .option = "data",
       .name = [](const Options& o) { return o.data.name; },
       .args = [](Options& o) -> Args { return o.data.args; }},
      {.key = "optimizer",
       .option = "optimizer",
       .name = [](const Options& o) { return o.optimizer.name; },
       .args = [](Options& o) -> Args { return o.optimizer.args; }},
      {.key = "lr_scheduler",
       .option = "lr_scheduler",
       .name = [](const Options& o) { return o.lr_scheduler.name; },
       .args = [](Options& o) -> Args { return o.lr_scheduler.args; }},
      {.key = "strategy",
       .option = "trainer.strategy",
       .name = name_of_strategy,
       .args = [](Options& o) -> Args { return o.strategy.args; }},
      {.key = "trainer.strategy",
       .option = "trainer.strategy",
       .alias_of = "strategy",
       .saved = false,
       .name = name_of_strategy,
       .args = [](Options& o) -> Args { return o.strategy.args; }},
      {.key = "checkpoint", .args = [](Options& o) -> Args { return o.checkpoint.args; }},
      {.key = "ddp", .alias_of = "strategy", .args = [](Options& o) -> Args { return o.strategy.ddp_args; }},
  }};
  return components;
}

const ComponentEntry* find_component_of(std::string_view key) {
  if (find_option(key) != nullptr) return nullptr;
  for (const ComponentEntry& component : component_table()) {
    if (key.starts_with(component.key + ".") && key.size() > component.key.size() + 1) return &component;
  }
  return nullptr;
}

std::string canonical_key(const std::string& key) {
  if (const OptionEntry* entry = find_option(key)) return entry->key;
  const ComponentEntry* component = find_component_of(key);
  if (component == nullptr) return canonical_listed_key(key);
  if (component->alias_of.empty()) return key;
  return component->alias_of + key.substr(component->key.size());
}

std::vector<std::string> option_names() {
  std::vector<std::string> names{"help", "version", "print_config", "config"};
  for (const OptionEntry& entry : option_table()) {
    if (!entry.canonical.empty()) continue;
    names.push_back(entry.key);
    if (short_key(entry) != entry.key) names.push_back(short_key(entry));
  }
  return names;
}

}  // namespace cxtrain
