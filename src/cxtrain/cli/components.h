#pragma once

#include <memory>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/options.h"
#include "cxtrain/plugin/known_components.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// What the options name, checked but not yet made.
struct Components {
  Arguments model;
  Arguments data;
  /// Of the strategy that the options name; where they name none, without any. Not by `load_components`:
  /// whose arguments they are is known with the plan.
  Arguments strategy;
  ChosenComponents chosen;
};

/// Loads what the program brings and the plugins that the options need into the registry and checks the
/// components' arguments. Appends every problem: an unknown model, strategy or data module (with those
/// found), unknown or malformed arguments, a plugin that cannot be used. Arguments of an optimizer that only
/// the model names are checked against all there are.
Components load_components(Registry& registry, const Options& options, std::vector<Problem>& problems);

/// The options with every argument of the components that they name, defaults included: what `config.yaml`
/// keeps, so that a later default does not change an old run.
Options with_all_arguments(Options options, const Components& components);

/// The model of a program that brings one, where neither a file nor an option names another. Of several, none
/// is chosen: that is a problem.
void choose_model(const Registry& registry, bool given, Options& options, std::vector<Problem>& problems);

/// The model that the options name, without the weights that they name.
std::unique_ptr<Module> make_model(const Registry& registry, const Options& options,
                                   const Components& components);
/// The data module that the options name, else the model's own. Throws ConfigError when there is neither.
std::unique_ptr<DataModule> make_data(const Registry& registry, const Options& options,
                                      const Components& components, Module& model);

}  // namespace cxtrain
