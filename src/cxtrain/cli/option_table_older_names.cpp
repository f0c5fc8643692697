#include <string>
#include <utility>

#include "cxtrain/cli/option_binding.h"
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

/// An entry that writes into another option. Nothing happens for null, which was "not asked" for them.
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
    return value ? find_option(canonical)->read(options, *value) : value.error;
  };
  entry.reset = [](Options&) {};
  entry.write = [canonical](const Options& options) { return find_option(canonical)->write(options); };
  return entry;
}

/// An argument of a component has no entry of its own to set.
void add_checkpoint_folder(OptionTable& table) {
  OptionEntry entry;
  entry.group = "Other names of Lightning's";
  entry.key = "trainer.weights_save_path";
  entry.canonical = "checkpoint.dirpath";
  entry.placeholder = "DIR";
  entry.help = "sets " + entry.canonical;
  entry.saved = false;
  entry.read = [](Options& options, const std::string& typed) {
    options.checkpoint.args["dirpath"] = typed;
    return std::string();
  };
  entry.reset = [](Options&) {};
  entry.write = [](const Options& options) -> std::optional<std::vector<std::string>> {
    const auto folder = options.checkpoint.args.find("dirpath");
    if (folder == options.checkpoint.args.end()) return std::nullopt;
    return std::vector<std::string>{folder->second};
  };
  table.push_back(std::move(entry));
}

}  // namespace

void add_older_names(OptionTable& table) {
  const auto add = [&](const char* key, const char* canonical, const char* placeholder,
                       Translate translate = as_it_is) -> OptionEntry& {
    return table.emplace_back(older_name(key, canonical, placeholder, std::move(translate)));
  };
  add("trainer.distributed_backend", "trainer.accelerator", "NAME");
  add("trainer.replace_sampler_ddp", "trainer.use_distributed_sampler", "BOOL").bare = "true";
  add_checkpoint_folder(table);
  add("trainer.resume_from_checkpoint", "ckpt_path", "PATH");
  add("trainer.checkpoint_callback", "trainer.enable_checkpointing", "BOOL").bare = "true";
  add("trainer.reload_dataloaders_every_epoch", "trainer.reload_dataloaders_every_n_epochs", "BOOL",
      epoch_switch)
      .bare = "true";
  add("trainer.progress_bar_refresh_rate", "trainer.enable_progress_bar", "0", bar_switch);
  add("trainer.weights_summary", "trainer.enable_model_summary", "top|null", summary_switch).reset =
      [](Options& options) { options.trainer.enable_model_summary = false; };
  add("seed_everything", "seed", "N|BOOL", seed_or_switch);
}

}  // namespace cxtrain
