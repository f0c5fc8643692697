#include <string>
#include <utility>

#include "cxtrain/cli/option_table.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

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

}  // namespace

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

}  // namespace cxtrain
