#include "cxtrain/cli/component_help.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cxtrain/base/error.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/repeatable_components.h"
#include "cxtrain/config/strategy_choice.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/reduce/comm_hook.h"
#include "cxtrain/report/metric_logger.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {
namespace {

NamedComponent describe(PluginLoader& loader, const Registry& registry, std::string_view kind,
                        const std::string& name) {
  try {
    loader.require(kind, name);
    const Registry::Entry& entry = registry.require(kind, name);
    return {name, entry.help, entry.arguments};
  } catch (const std::exception& error) {
    return {name, "cannot be used: " + shortened(error.what(), 300), {}};
  }
}

}  // namespace

std::vector<ComponentSection> component_sections(Registry& registry, const Options& options) {
  PluginLoader loader(registry);
  std::vector<ComponentSection> sections;
  const auto add = [&](const char* title, const char* option, std::string_view kind) {
    ComponentSection section{title, option, {}};
    for (const std::string& name : loader.available(kind))
      section.components.push_back(describe(loader, registry, kind, name));
    if (!section.components.empty()) sections.push_back(std::move(section));
  };
  for (const std::string& file : options.plugins) {
    try {
      loader.load(file);
    } catch (const std::exception&) {  // a run with it is refused, with the reason
    }
  }
  add("Models", "model", Module::kKind);
  add("Data modules", "data", DataModule::kKind);
  sections.push_back({"Optimizers", "optimizer", known_optimizers()});
  sections.push_back({"Schedules of the learning rate", "lr_scheduler", known_schedules()});
  add("Strategies", "strategy", Strategy::kKind);
  add("Ways to send fewer bytes of gradients", kCommHookOption, CommHook::kKind);
  add("Callbacks", "callbacks", Callback::kKind);
  add("Loggers", "loggers", MetricLogger::kKind);
  return sections;
}

std::string component_named_by(const Options& options, const ComponentSection& section) {
  if (section.option == "strategy")
    return named_strategy(options.trainer, transformed(section.components, &NamedComponent::name))
        .value_or("");
  const auto components = component_table();
  const auto found = std::ranges::find(components, section.option, &ComponentEntry::key);
  return found != components.end() && found->name != nullptr ? found->name(options) : "";
}

std::string choosing_option(const ComponentSection& section, const NamedComponent& component) {
  return "--" + section.option + (is_repeatable_section(section.option) ? "." : " ") + component.name;
}

std::string argument_name(const ComponentSection& section, const NamedComponent& component,
                          const ArgumentSpec& spec) {
  if (section.option == kCommHookOption)
    return "strategy." + argument_of_comm_hook(component.name, spec.name);
  return section.option + "." + (is_repeatable_section(section.option) ? component.name + "." : "") +
         spec.name;
}

std::string to_json(const std::vector<ComponentSection>& sections) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const ComponentSection& section : sections) {
    for (const NamedComponent& component : section.components) {
      Json arguments = Json::array();
      for (const ArgumentSpec& spec : component.arguments) {
        arguments.push_back(
            {{"name", spec.name}, {"type", spec.type}, {"default", spec.default_value}, {"help", spec.help}});
        if (!spec.choices.empty()) arguments.back()["choices"] = spec.choices;
      }
      all.push_back({{"option", section.option},
                     {"name", component.name},
                     {"help", component.help},
                     {"arguments", std::move(arguments)}});
    }
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cxtrain
