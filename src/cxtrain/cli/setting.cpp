#include "cxtrain/cli/setting.h"

#include <set>

#include "cxtrain/cli/option_table.h"
#include "cxtrain/config/nearest_name.h"

namespace cxtrain {
namespace {

bool names_component(const OptionEntry& entry) {
  for (const ComponentEntry& component : component_table()) {
    if (component.key == entry.key) return true;
  }
  return false;
}

/// Sets a component's name; another name (or null) drops the arguments that were meant for the former one.
void apply_name(const OptionEntry& entry, const Setting& setting, Options& options) {
  for (const ComponentEntry& component : component_table()) {
    if (component.key != entry.key) continue;
    if (!setting.value || component.name(options) != *setting.value) component.args(options).clear();
  }
  if (setting.value) {
    entry.read(options, *setting.value);
  } else {
    entry.reset(options);
  }
}

void apply_argument(const ComponentEntry& component, const Setting& setting, Options& options) {
  const std::string name = setting.key.substr(component.key.size() + 1);
  if (setting.value) {
    component.args(options)[name] = *setting.value;
  } else {
    component.args(options).erase(name);
  }
}

}  // namespace

void apply_settings(const std::vector<Setting>& settings, Options& options, std::vector<Problem>& problems) {
  std::set<std::string> seen;
  const auto first_time = [&](const std::string& key, const Setting& setting) {
    if (seen.insert(key).second) return true;
    problems.push_back({setting.written, "is given twice", "keep one"});
    return false;
  };
  for (const Setting& setting : settings) {
    const OptionEntry* entry = find_option(setting.key);
    if (entry != nullptr && names_component(*entry) && first_time(entry->key, setting))
      apply_name(*entry, setting, options);
  }
  for (const Setting& setting : settings) {
    if (const ComponentEntry* component = find_component_of(setting.key)) {
      if (first_time(setting.key, setting)) apply_argument(*component, setting, options);
      continue;
    }
    const OptionEntry* entry = find_option(setting.key);
    if (entry == nullptr) {
      problems.push_back(
          {setting.written, "there is no such option", did_you_mean(setting.key, option_names(), "--")});
    } else if (names_component(*entry)) {
      continue;
    } else if (!entry->repeatable && !first_time(entry->key, setting)) {
      continue;
    } else if (!setting.value) {
      entry->reset(options);
    } else if (const std::string why = entry->read(options, *setting.value); !why.empty()) {
      problems.push_back({setting.written, why, ""});
    }
  }
}

}  // namespace cxtrain
