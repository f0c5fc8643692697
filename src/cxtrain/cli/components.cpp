#include "cxtrain/cli/components.h"

#include <algorithm>
#include <map>
#include <optional>

#include "cxtrain/base/text.h"
#include "cxtrain/callbacks/built_in.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/name_map.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/config/field_text.h"
#include "cxtrain/optim/overrides.h"
#include "cxtrain/optim/setup_arguments.h"
#include "cxtrain/plugin/loader.h"

namespace cxtrain {
namespace {

/// Runs one step of loading; what it refuses becomes a problem of `option`.
template <class Work>
bool attempt(const char* option, std::vector<Problem>& problems, Work&& work) {
  try {
    work();
    return true;
  } catch (const PluginError& error) {
    problems.push_back({option, error.what(), "", message_code_of(error)});
    return false;
  }
}

/// The options that all models or all data modules have, without their prefix.
std::vector<std::string> options_of_all(const std::string& prefix) {
  std::vector<std::string> names;
  for (const OptionEntry& entry : option_table()) {
    if (entry.key.starts_with(prefix)) names.push_back(entry.key.substr(prefix.size()));
  }
  return names;
}

/// The options of all data modules that also give an argument of their name the value, if there is one.
std::map<std::string, std::optional<std::string>> shared_with_arguments(const DataOptions& options) {
  return {{"path", options.path.empty() ? std::nullopt : std::optional(options.path)},
          {"batch_size", field::text_of(options.batch_size)}};
}

/// The arguments of the data module that the user gave.
std::map<std::string, std::string> arguments_of_data(const std::vector<ArgumentSpec>& specs,
                                                     const DataOptions& options) {
  const auto shared = shared_with_arguments(options);
  std::map<std::string, std::string> given = options.args;
  for (const ArgumentSpec& spec : specs) {
    const auto found = shared.find(spec.name);
    if (found != shared.end() && found->second) given.emplace(spec.name, *found->second);
  }
  return given;
}

void add_defaults(const std::vector<NamedComponent>& known, NamedOptions& options) {
  for (const NamedComponent& component : known) {
    if (component.name != options.name) continue;
    for (const ArgumentSpec& spec : component.arguments) options.args.emplace(spec.name, spec.default_value);
  }
}

}  // namespace

Components load_components(Registry& registry, const Options& options, std::vector<Problem>& problems) {
  register_built_in(registry);
  PluginLoader loader(registry);
  for (const std::string& file : options.plugins) attempt("plugin", problems, [&] { loader.load(file); });

  Components components;
  const std::vector<std::string> of_all = options_of_all("model.");
  if (options.model.name.empty()) {
    components.model = Arguments({}, options.model.args, "model.", problems, of_all);
  } else if (attempt("model", problems, [&] { loader.require(Module::kKind, options.model.name); })) {
    const auto& specs = registry.require(Module::kKind, options.model.name).arguments;
    for (const ArgumentSpec& spec : specs) {
      if (std::ranges::find(of_all, spec.name) == of_all.end()) continue;
      problems.push_back(
          {"model." + spec.name,
           "is an option of all models, and `" + options.model.name + "` has an argument of this name",
           "rename the model's argument", MessageCode::conflicting_options});
    }
    components.model = Arguments(specs, options.model.args, "model.", problems, of_all);
  }
  if (!options.data.name.empty()) {
    if (attempt("data", problems, [&] { loader.require(DataModule::kKind, options.data.name); })) {
      const auto& specs = registry.require(DataModule::kKind, options.data.name).arguments;
      components.data = Arguments(specs, arguments_of_data(specs, options.data), "data.", problems,
                                  options_of_all("data."));
    }
  } else {
    components.data = Arguments({}, options.data.args, "data.", problems, options_of_all("data."));
  }
  try {
    NameMap::parse(options.model_weights.map);
  } catch (const CheckpointError& error) {
    problems.push_back({"model.weights_map", error.what(), "", message_code_of(error)});
  }
  const WeightsOptions& weights = options.model_weights;
  const auto needs_weights = [&](const char* option, bool given) {
    if (given && weights.path.empty())
      problems.push_back({option, "means nothing without weights", "add --model.weights PATH",
                          MessageCode::conflicting_options});
  };
  needs_weights("model.weights_map", !weights.map.empty());
  needs_weights("model.weights_prefix", !weights.prefix.empty());
  needs_weights("model.weights_strict", !weights.strict);
  components.chosen = choose_components(registry, options, problems);
  check_overrides(options.optimizer, options.lr_scheduler, problems);
  return components;
}

Options with_all_arguments(Options options, const Components& components) {
  options.model.args = components.model.values();
  if (!options.data.name.empty()) options.data.args = components.data.values();
  for (const auto& [name, value] : shared_with_arguments(options.data)) options.data.args.erase(name);
  for (const auto& [name, value] : components.strategy.values()) {
    options.strategy.args[name] = value;
    options.strategy.ddp_args.erase(name);
  }
  add_defaults(known_optimizers(), options.optimizer);
  add_defaults(known_schedules(), options.lr_scheduler);
  const auto fill = [](std::vector<NamedOptions>& list, const std::vector<ChosenComponent>& loaded) {
    for (NamedOptions& wanted : list) {
      for (const ChosenComponent& chosen : loaded) {
        if (chosen.asked_as == wanted.name) wanted.args = chosen.arguments.values();
      }
    }
  };
  fill(options.callbacks, components.chosen.callbacks);
  for (const ChosenComponent& chosen : components.chosen.callbacks) {
    if (chosen.asked_as == options.checkpoint.name) options.checkpoint.args = chosen.arguments.values();
  }
  fill(options.loggers, components.chosen.loggers);
  return options;
}

void choose_model(const Registry& registry, bool given, Options& options, std::vector<Problem>& problems) {
  const std::vector<std::string> own = registry.names(Module::kKind);
  if (given || own.empty()) return;
  options.model.name = own.front();
  if (own.size() == 1) return;
  problems.push_back({"model", "this program has several models, and none is named: " + joined(own),
                      "--model " + own.front(), MessageCode::missing_value});
}

std::unique_ptr<Module> make_model(const Registry& registry, const Options& options,
                                   const Components& components) {
  return registry.make<Module>(options.model.name, components.model);
}

std::unique_ptr<DataModule> make_data(const Registry& registry, const Options& options,
                                      const Components& components, Module& model) {
  if (!options.data.name.empty()) return registry.make<DataModule>(options.data.name, components.data);
  std::unique_ptr<DataModule> data = model.default_data();
  if (data) return data;
  throw ConfigError("data", "the model `" + options.model.name + "` brings no data",
                    "name a data module with --data", MessageCode::no_data);
}

}  // namespace cxtrain
