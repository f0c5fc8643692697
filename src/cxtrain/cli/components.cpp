#include "cxtrain/cli/components.h"

#include "cxtrain/optim/overrides.h"
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
      components.data = Arguments(specs, options.data.args, "data.", problems);
    }
  } else {
    components.data = Arguments({}, options.data.args, "data.", problems);
  }
  // The optimizer's arguments are checked against a neutral setup when it is named, else when the model is
  // known.
  if (!options.optimizer.name.empty() || !options.lr_scheduler.name.empty()) {
    NamedOptions optimizer = options.optimizer, schedule = options.lr_scheduler;
    if (optimizer.name.empty()) optimizer.args.clear();
    if (schedule.name.empty()) schedule.args.clear();
    apply_overrides({}, optimizer, schedule, problems);
  }
  return components;
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
