#include "cxtrain/cli/option_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "cxtrain/cli/repeatable_components.h"
#include "cxtrain/config/field_text.h"
#include "cxtrain/config/values.h"

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

using Translation = Parsed<std::string>;
using Translate = std::function<Translation(const std::string&)>;

Translation as_it_is(const std::string& typed) { return Translation::of(typed); }

/// reload_dataloaders_every_epoch=true: every 1 epoch.
Translation epoch_switch(const std::string& typed) {
  const auto on = parse_boolean(typed);
  return on ? Translation::of(*on ? "1" : "0") : Translation::refused("'" + typed + "' is not true or false");
}

Translation summary_switch(const std::string& typed) {
  if (typed == "top") return Translation::of("true");
  if (typed == "full") {
    return Translation::refused(
        "'full' is not possible: the summary shows the topmost layers, as 'top' does");
  }
  return Translation::refused("'" + typed + "' is none of top, null");
}

Translation bar_switch(const std::string& typed) {
  const auto batches = parse_integer(typed);
  if (!batches) return Translation::refused("'" + typed + "' is not a whole number");
  if (*batches == 0) return Translation::of("false");
  return Translation::refused("the bar is redrawn by the clock, not every " + typed +
                              " batches; 0 turns it off, as --enable_progress_bar false does");
}

/// LightningCLI's `true` leaves the choice of the seed to Lightning, and `false` has none: the default here.
Translation seed_or_switch(const std::string& typed) {
  if (parse_integer(typed)) return Translation::of(typed);
  return Translation::of(parse_boolean(typed) ? "0" : typed);
}

/// The argument of a component that has this key, among the options; an empty text where it is not given.
std::string& argument_at(std::string_view key, Options& options) {
  const ComponentEntry& component = *find_component_of(key);
  return component.args(options)[std::string(key.substr(component.key.size() + 1))];
}

std::string set_canonical(const char* key, Options& options, const std::string& value) {
  if (const OptionEntry* option = find_option(key)) return option->read(options, value);
  argument_at(key, options) = value;
  return {};
}

std::optional<std::vector<std::string>> canonical_values(const char* key, const Options& options) {
  if (const OptionEntry* option = find_option(key)) return option->write(options);
  Options copy = options;
  return std::vector<std::string>{argument_at(key, copy)};
}

/// An entry that writes into another option, or an argument of a component. Nothing happens for null, which
/// was "not asked" for them.
OptionEntry older_name(const char* key, const char* canonical, const char* placeholder, Translate translate) {
  OptionEntry entry;
  entry.group = "Other names of Lightning's";
  entry.key = key;
  entry.canonical = canonical;
  entry.placeholder = placeholder;
  entry.help = "sets " + entry.canonical;
  entry.saved = false;
  entry.read = [canonical, translate = std::move(translate)](Options& options, const std::string& typed) {
    const Translation value = translate(typed);
    return value ? set_canonical(canonical, options, *value) : value.error;
  };
  entry.reset = [](Options&) {};
  entry.write = [canonical](const Options& options) { return canonical_values(canonical, options); };
  return entry;
}

/// Lightning's other names of options and arguments.
std::vector<OptionEntry> deprecated_names() {
  std::vector<OptionEntry> table;
  const auto add = [&](const char* key, const char* canonical, const char* placeholder,
                       Translate translate = as_it_is) -> OptionEntry& {
    return table.emplace_back(older_name(key, canonical, placeholder, std::move(translate)));
  };
  add("trainer.distributed_backend", "trainer.accelerator", "NAME");
  add("trainer.replace_sampler_ddp", "trainer.use_distributed_sampler", "BOOL").bare = "true";
  add("trainer.weights_save_path", "checkpoint.dirpath", "DIR");
  add("trainer.resume_from_checkpoint", "ckpt_path", "PATH");
  add("trainer.checkpoint_callback", "trainer.enable_checkpointing", "BOOL").bare = "true";
  add("trainer.reload_dataloaders_every_epoch", "trainer.reload_dataloaders_every_n_epochs", "BOOL",
      epoch_switch)
      .bare = "true";
  add("trainer.progress_bar_refresh_rate", "trainer.enable_progress_bar", "0", bar_switch);
  add("trainer.weights_summary", "trainer.enable_model_summary", "top|null", summary_switch).reset =
      [](Options& options) { options.trainer.enable_model_summary = false; };
  add("seed_everything", "seed", "N|BOOL", seed_or_switch);
  return table;
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
