#pragma once

#include <string>
#include <vector>

#include "cxtrain/config/options.h"
#include "cxtrain/optim/setup_arguments.h"
#include "cxtrain/plugin/registry.h"

namespace cxtrain {

/// Everything of one kind that a command line may name.
struct ComponentSection {
  std::string title;   ///< "Models"
  std::string option;  ///< "model": the option that takes the name, and before a dot the arguments
  std::vector<NamedComponent> components;
};

/// Models, data modules, optimizers, schedules, strategies, callbacks and loggers: what is registered, what a
/// plugin file in the usual places offers (loading all of them; one that cannot be loaded says so in its
/// help), and what is built in. Kinds of which there are none are left out.
std::vector<ComponentSection> component_sections(Registry& registry, const Options& options);

/// The component of the section that the options name; empty: none, or any number of them.
std::string component_named_by(const Options& options, const ComponentSection& section);

/// "--model gpt", "--callbacks.early_stopping": the option that chooses the component.
std::string choosing_option(const ComponentSection& section, const NamedComponent& component);

/// "model.layers", "callbacks.early_stopping.patience": an argument, as it stands after `--`.
std::string argument_name(const ComponentSection& section, const NamedComponent& component,
                          const ArgumentSpec& spec);

/// [{"option":"model","name":"gpt","help":"...","arguments":[{"name":"layers","type":"integer","default":"4",
///   "help":"..."}]}]
std::string to_json(const std::vector<ComponentSection>& sections);

}  // namespace cxtrain
