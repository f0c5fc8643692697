#include "cxtrain/cli/components.h"

#include "cxtrain/cli/listed_components.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/config/nearest_name.h"
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
    problems.push_back({option, error.what(), ""});
    return false;
  }
}

/// The options of a kind that the program brings itself, such as `callbacks.lr_monitor`: a misspelt one ends
/// up among the components.
std::string meant_option(const std::string& key, const std::string& name) {
  return did_you_mean(key + "." + name, option_names(), "--");
}

std::vector<std::pair<std::string, Arguments>> load_listed(const ListedComponents& listed,
                                                           const Registry& registry, PluginLoader& loader,
                                                           const Options& options,
                                                           std::vector<Problem>& problems) {
  std::vector<std::pair<std::string, Arguments>> loaded;
  const std::string key = listed.key;
  for (const NamedOptions& wanted : options.*listed.list) {
    try {
      loader.require(listed.kind, wanted.name);
      const auto& specs = registry.require(listed.kind, wanted.name).arguments;
      loaded.emplace_back(wanted.name,
                          Arguments(specs, wanted.args, key + "." + wanted.name + ".", problems));
    } catch (const PluginError& error) {
      problems.push_back({key + "." + wanted.name, error.what(), meant_option(key, wanted.name)});
    }
  }
  return loaded;
}

/// The options of data that every data module has, without "data.".
std::vector<std::string> options_of_data() {
  const std::string prefix = "data.";
  std::vector<std::string> names;
  for (const OptionEntry& entry : option_table()) {
    if (entry.key.starts_with(prefix)) names.push_back(entry.key.substr(prefix.size()));
  }
  return names;
}

void add_defaults(const std::vector<NamedComponent>& known, NamedOptions& options) {
  for (const NamedComponent& component : known) {
    if (component.name != options.name) continue;
    for (const ArgumentSpec& spec : component.arguments) options.args.emplace(spec.name, spec.default_value);
  }
}

}  // namespace

Components load_components(Registry& registry, const Options& options, std::vector<Problem>& problems) {
  PluginLoader loader(registry);
  for (const std::string& file : options.plugins) attempt("plugin", problems, [&] { loader.load(file); });

  Components components;
  if (attempt("model", problems, [&] { loader.require(Module::kKind, options.model.name); })) {
    const auto& specs = registry.require(Module::kKind, options.model.name).arguments;
    components.model = Arguments(specs, options.model.args, "model.", problems);
  }
  if (!options.data.name.empty()) {
    if (attempt("data", problems, [&] { loader.require(DataModule::kKind, options.data.name); })) {
      const auto& specs = registry.require(DataModule::kKind, options.data.name).arguments;
      components.data = Arguments(specs, options.data.args, "data.", problems, options_of_data());
    }
  } else {
    components.data = Arguments({}, options.data.args, "data.", problems, options_of_data());
  }
  components.callbacks = load_listed(kListedComponents[0], registry, loader, options, problems);
  components.loggers = load_listed(kListedComponents[1], registry, loader, options, problems);
  check_overrides(options.optimizer, options.lr_scheduler, problems);
  return components;
}

std::vector<std::unique_ptr<Callback>> make_callbacks(const Registry& registry,
                                                      const Components& components) {
  std::vector<std::unique_ptr<Callback>> made;
  for (const auto& [name, arguments] : components.callbacks) {
    made.push_back(registry.make<Callback>(name, arguments));
  }
  return made;
}

std::vector<std::unique_ptr<MetricLogger>> make_loggers(const Registry& registry,
                                                        const Components& components) {
  std::vector<std::unique_ptr<MetricLogger>> made;
  for (const auto& [name, arguments] : components.loggers) {
    made.push_back(registry.make<MetricLogger>(name, arguments));
  }
  return made;
}

Options with_all_arguments(Options options, const Components& components) {
  options.model.args = components.model.values();
  if (!options.data.name.empty()) options.data.args = components.data.values();
  for (const auto& [name, value] : components.strategy.values()) {
    options.strategy.args[name] = value;
    options.strategy.ddp_args.erase(name);
  }
  add_defaults(known_optimizers(), options.optimizer);
  add_defaults(known_schedules(), options.lr_scheduler);
  const auto fill = [](std::vector<NamedOptions>& list, const auto& loaded) {
    for (NamedOptions& wanted : list) {
      for (const auto& [name, arguments] : loaded) {
        if (name == wanted.name) wanted.args = arguments.values();
      }
    }
  };
  fill(options.callback_components, components.callbacks);
  fill(options.loggers, components.loggers);
  return options;
}

void choose_model(const Registry& registry, bool given, Options& options) {
  const std::vector<std::string> own = registry.names(Module::kKind);
  if (!given && own.size() == 1) options.model.name = own.front();
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
                    "name a data module with --data");
}

}  // namespace cxtrain
