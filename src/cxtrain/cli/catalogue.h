#pragma once

#include <string>
#include <vector>

#include "cxtrain/config/options.h"
#include "cxtrain/optim/setup_arguments.h"
#include "cxtrain/plugin/registry.h"

namespace cxtrain {

/// Everything of one kind that a command line may name.
struct CatalogueSection {
  std::string title;   ///< "Models"
  std::string option;  ///< "model": the option that takes the name, and before a dot the arguments
  std::vector<NamedComponent> components;
};

/// Models, data modules, optimizers, schedules, strategies, callbacks and loggers: what is registered, what a
/// plugin file in the usual places offers (loading all of them; one that cannot be loaded says so in its
/// help), and what is built in. Kinds of which there are none are left out.
std::vector<CatalogueSection> make_catalogue(Registry& registry, const Options& options);

/// As part of --help, at most 100 columns wide. Arguments are shown of the components that the options name,
/// or with `all_arguments` of every one.
std::string to_text(const std::vector<CatalogueSection>& catalogue, const Options& options,
                    bool all_arguments);

/// [{"option":"model","name":"gpt","help":"...","arguments":[{"name":"layers","type":"integer","default":"4",
///   "help":"..."}]}]
std::string to_json(const std::vector<CatalogueSection>& catalogue);

/// What `cxtrain_mpi SUBCOMMAND --help` prints: usage, then the options of the subcommand in groups, at most
/// 100 columns wide.
std::string help_text(const std::string& subcommand);

/// Appends "  left      help", the help wrapped in its column.
void append_help_entry(std::string& out, const std::string& left, const std::string& help);

}  // namespace cxtrain
