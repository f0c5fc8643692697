#include "cxtrain/cli/option_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>

#include "cxtrain/cli/repeatable_components.h"
#include "cxtrain/config/field_text.h"

namespace cxtrain {
namespace {

/// A member of Options.
template <class Value>
class Member {
 public:
  Member(const Options& options, const Value& value)
      : offset_(reinterpret_cast<const char*>(&value) - reinterpret_cast<const char*>(&options)) {}

  Value& of(Options& options) const {
    return *reinterpret_cast<Value*>(reinterpret_cast<char*>(&options) + offset_);
  }
  const Value& of(const Options& options) const {
    return *reinterpret_cast<const Value*>(reinterpret_cast<const char*>(&options) + offset_);
  }

 private:
  std::ptrdiff_t offset_;
};

template <class Value>
void bind(OptionEntry& entry, Member<Value> member) {
  entry.placeholder = field::shown<Value>();
  if constexpr (std::is_same_v<Value, bool> || std::is_same_v<Value, std::optional<bool>> ||
                std::is_same_v<Value, Deterministic>) {
    entry.bare = "true";
  }
  entry.read = [member](Options& options, const std::string& typed) {
    auto value = field::parse<Value>(typed);
    if (value) member.of(options) = std::move(*value.value);
    return value.error;
  };
  entry.reset = [member](Options& options) {
    // A null optional is "absent" even where that is not the default (check_val_every_n_epoch).
    if constexpr (kIsOptional<Value>) {
      member.of(options) = std::nullopt;
    } else {
      const Options defaults;
      member.of(options) = member.of(defaults);
    }
  };
  entry.write = [member](const Options& options) -> std::optional<std::vector<std::string>> {
    const auto written = field::text_of(member.of(options));
    if (!written) return std::nullopt;
    return std::vector{*written};
  };
}

void bind(OptionEntry& entry, Member<std::vector<std::string>> member) {
  entry.repeatable = true;
  entry.read = [member](Options& options, const std::string& typed) {
    member.of(options).push_back(typed);
    return std::string();
  };
  entry.reset = [member](Options& options) { member.of(options).clear(); };
  entry.write = [member](const Options& options) { return member.of(options); };
}

void set(OptionEntry& /*entry*/, const Range& /*range*/) {}  // check_options checks it
void set(OptionEntry& entry, const option::Shown& shown) { entry.placeholder = shown.value; }
void set(OptionEntry& entry, const option::Details& details) { entry.details = details.text; }
void set(OptionEntry& entry, const option::OnlyFor& only) {
  entry.commands = only.subcommands;
  entry.saved = false;
}
void set(OptionEntry& entry, const option::TrueMeans& meant) {
  entry.bare = meant.value;
  entry.read = [read = entry.read, reset = entry.reset, yes = entry.bare](Options& options,
                                                                          const std::string& typed) {
    const auto boolean = parse_boolean(typed);
    if (boolean != false) return read(options, boolean ? yes : typed);
    reset(options);
    return std::string();
  };
}

std::vector<OptionEntry> make_table() {
  std::vector<OptionEntry> table;
  Options options;
  options.groups([&](const std::string& title, const std::string& prefix, auto list, const auto&... shared) {
    if (title == "General") std::ranges::move(deprecated_names(), std::back_inserter(table));
    list([&](const char* name, const auto& value, const char* help, const auto&... own) {
      OptionEntry& entry = table.emplace_back();
      entry.group = title;
      entry.key = prefix + name;
      entry.help = help;
      bind(entry, Member(options, value));
      (set(entry, own), ...);
      (set(entry, shared), ...);
    });
  });
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

std::string default_text(const OptionEntry& entry, const Options& defaults) {
  const auto values = entry.saved ? entry.write(defaults) : std::nullopt;
  return values && !values->empty() ? values->front() : "";
}

bool is_own_option(const OptionEntry& entry, const std::string& subcommand) {
  return (" " + entry.commands + " ").find(" " + subcommand + " ") != std::string::npos;
}

std::span<const OptionEntry> option_table() {
  static const std::vector<OptionEntry> table = make_table();
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
  if (component == nullptr) return canonical_repeatable_key(key);
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
