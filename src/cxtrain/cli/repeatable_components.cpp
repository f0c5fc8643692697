#include "cxtrain/cli/repeatable_components.h"

#include <algorithm>

namespace cxtrain {
namespace {

NamedOptions& entry_of(std::vector<NamedOptions>& list, const std::string& name) {
  const auto known = std::ranges::find_if(list, [&](const auto& each) { return each.name == name; });
  if (known != list.end()) return *known;
  return list.emplace_back(NamedOptions{name, {}});
}

void switch_component(const Setting& setting, const std::string& name, std::vector<NamedOptions>& list,
                      std::vector<Problem>& problems) {
  const std::string value = setting.value.value_or("false");
  if (value == "true" || value.empty()) {
    entry_of(list, name);
  } else if (value == "false") {
    std::erase_if(list, [&](const NamedOptions& each) { return each.name == name; });
  } else {
    problems.push_back({setting.written, "takes true or false, found '" + value + "'",
                        "its arguments are --" + setting.key + ".ARG"});
  }
}

void apply(const Setting& setting, const std::string& key, Options& options, std::vector<Problem>& problems) {
  for (const RepeatableComponents& listed : kRepeatableComponents) {
    const std::string prefix = std::string(listed.key) + ".";
    if (!key.starts_with(prefix)) continue;
    const std::string rest = key.substr(prefix.size());
    const std::size_t dot = rest.find('.');
    std::vector<NamedOptions>& list = options.*listed.list;
    if (dot == std::string::npos) {
      switch_component(setting, rest, list, problems);
    } else if (setting.value) {
      entry_of(list, rest.substr(0, dot)).args[rest.substr(dot + 1)] = *setting.value;
    } else {
      entry_of(list, rest.substr(0, dot)).args.erase(rest.substr(dot + 1));
    }
  }
}

constexpr std::string_view kOlderPrefix = "callbacks.early_stopping_";

bool has_older_name(const Setting& setting) { return setting.key.starts_with(kOlderPrefix); }

/// What switched early stopping off, as it stands in every file that had it off.
bool switches_early_stopping_off(const Setting& setting) {
  return setting.key == "callbacks.early_stopping_monitor" && !setting.value;
}

}  // namespace

bool is_repeatable_section(std::string_view key) {
  return std::ranges::any_of(kRepeatableComponents,
                             [&](const RepeatableComponents& listed) { return key == listed.key; });
}

bool is_repeatable_component(std::string_view key) {
  const std::size_t dot = key.find('.');
  return dot != std::string_view::npos && is_repeatable_section(key.substr(0, dot));
}

bool is_name_of_repeatable_component(std::string_view key) {
  return is_repeatable_component(key) && std::ranges::count(key, '.') == 1;
}

std::string canonical_repeatable_key(const std::string& key) {
  if (!key.starts_with(kOlderPrefix)) return key;
  return "callbacks.early_stopping." + key.substr(kOlderPrefix.size());
}

void apply_repeatable_components(std::span<const Setting> settings, Options& options,
                                 std::vector<Problem>& problems) {
  bool off = false;
  for (const bool older : {false, true}) {
    for (const Setting& setting : settings) {
      if (!is_repeatable_component(setting.key) || has_older_name(setting) != older) continue;
      off |= switches_early_stopping_off(setting);
      apply(setting, canonical_repeatable_key(setting.key), options, problems);
    }
  }
  if (off) std::erase_if(options.callbacks, [](const auto& each) { return each.name == "early_stopping"; });
}

}  // namespace cxtrain
