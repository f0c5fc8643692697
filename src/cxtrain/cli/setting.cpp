#include "cxtrain/cli/setting.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/repeatable_components.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/optim/setup_arguments.h"

namespace cxtrain {
namespace {

bool names_component(const OptionEntry& entry) {
  for (const ComponentEntry& component : component_table()) {
    if (component.option == entry.key) return true;
  }
  return false;
}

/// Sets a component's name; another name (or null) drops the arguments that were meant for the former one.
void apply_name(const OptionEntry& entry, const Setting& setting, Options& options) {
  for (const ComponentEntry& component : component_table()) {
    if (component.option != entry.key || !component.alias_of.empty()) continue;
    const std::string former = component.name(options);
    if (!setting.value || (!former.empty() && former != *setting.value)) component.args(options).clear();
  }
  if (setting.value) {
    entry.read(options, *setting.value);
  } else {
    entry.reset(options);
  }
}

void apply_argument(const ComponentEntry& component, const Setting& setting, Options& options) {
  const std::string name = setting.key.substr(component.key.size() + 1);
  const auto owner = [](const ComponentEntry& entry) {
    return entry.alias_of.empty() ? entry.key : entry.alias_of;
  };
  for (const ComponentEntry& other : component_table()) {
    if (owner(other) == owner(component)) other.args(options).erase(name);
  }
  if (setting.value) component.args(options)[name] = *setting.value;
}

bool any_has_argument(const std::vector<NamedComponent>& components, const std::string& name) {
  return std::ranges::any_of(components, [&](const NamedComponent& component) {
    return std::ranges::any_of(component.arguments,
                               [&](const ArgumentSpec& spec) { return spec.name == name; });
  });
}

/// What may have been meant by a key that no option has.
std::string hint_for_unknown(const std::string& key) {
  const std::vector<std::string> names = option_names();
  const std::string near = did_you_mean(key, names, "--");
  if (!near.empty()) return near;
  if (key.find('.') == std::string::npos) {
    for (const std::string& name : names) {
      if (name.ends_with("." + key)) return "did you mean --" + name + "?";
    }
    for (const auto& [owner, components] :
         {std::pair{"optimizer", &known_optimizers()}, std::pair{"lr_scheduler", &known_schedules()}}) {
      if (any_has_argument(*components, key)) return std::string("did you mean --") + owner + "." + key + "?";
    }
    return "for an argument of the model, write --model." + key + "; `help` lists all names";
  }
  std::string owner = key;
  while (owner.find('.') != std::string::npos) {
    owner.resize(owner.rfind('.'));
    if (find_option(owner) != nullptr) return owner + " takes a single value";
  }
  return "";
}

/// One source's settings on their way into the options.
class SettingsMerger {
 public:
  SettingsMerger(Options& options, std::vector<Problem>& problems) : options_(options), problems_(problems) {}

  void apply(const std::vector<Setting>& settings) {
    for (const Setting& setting : settings) {
      const OptionEntry* entry = find_option(setting.key);
      if (entry != nullptr && names_component(*entry) && first_time(entry->key, setting))
        apply_name(*entry, setting, options_);
    }
    std::vector<Setting> listed;
    for (const Setting& setting : settings) {
      const OptionEntry* entry = find_option(setting.key);
      if (const ComponentEntry* component = find_component_of(setting.key)) {
        if (first_time(canonical_key(setting.key), setting)) apply_argument(*component, setting, options_);
      } else if (entry == nullptr && is_repeatable_component(setting.key)) {
        if (first_time(canonical_key(setting.key), setting)) listed.push_back(setting);
      } else if (entry == nullptr) {
        refuse_unknown(setting);
      } else if (!names_component(*entry) && entry->canonical.empty()) {
        apply_option(*entry, setting);
      }
    }
    apply_repeatable_components(listed, options_, problems_);
    for (const Setting& setting : settings) {
      const OptionEntry* entry = find_option(setting.key);
      if (entry != nullptr && !entry->canonical.empty()) apply_older_name(*entry, setting);
    }
  }

 private:
  bool first_time(const std::string& key, const Setting& setting) {
    if (seen_.insert(key).second) return true;
    problems_.push_back({setting.written, "is given twice", "keep one", MessageCode::conflicting_options});
    return false;
  }

  void apply_option(const OptionEntry& entry, const Setting& setting) {
    if (!entry.repeatable && !first_time(entry.key, setting)) return;
    read(entry, setting, options_);
  }

  bool read(const OptionEntry& entry, const Setting& setting, Options& options) {
    if (!setting.value) return entry.reset(options), true;
    const std::string why = entry.read(options, *setting.value);
    if (!why.empty()) problems_.push_back({setting.written, why, ""});
    return why.empty();
  }

  /// A file that Lightning wrote has both names of an option; they may say the same.
  void apply_older_name(const OptionEntry& entry, const Setting& setting) {
    Options changed = options_;
    if (!first_time(entry.key, setting) || !read(entry, setting, changed)) return;
    const bool same = entry.write(changed) == entry.write(options_);
    if (!same && seen_.contains(entry.canonical)) {
      problems_.push_back({setting.written,
                           "is an older name of " + entry.canonical + ", and both were given",
                           "keep " + entry.canonical, MessageCode::conflicting_options});
    } else {
      options_ = std::move(changed);
    }
  }

  void refuse_unknown(const Setting& setting) {
    const UnsupportedArgument* unsupported = find_unsupported_argument(setting.key);
    if (unsupported == nullptr) {
      // Looking for what was meant takes time, and no more than these are shown.
      const bool shown = problems_.size() < kMaxProblems;
      problems_.push_back({setting.written, "there is no such option",
                           shown ? hint_for_unknown(setting.key) : "", MessageCode::unknown_option});
    } else if (setting.value && (unsupported->harmless.empty() || *setting.value != unsupported->harmless)) {
      problems_.push_back({setting.written, "is an argument of Lightning's that does not exist here",
                           std::string(unsupported->instead), MessageCode::unsupported_option});
    }
  }

  Options& options_;
  std::vector<Problem>& problems_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<Setting> last_of_each(const std::vector<Setting>& settings) {
  std::set<std::string> seen;
  std::vector<Setting> last;
  for (auto setting = settings.rbegin(); setting != settings.rend(); ++setting) {
    const OptionEntry* entry = find_option(setting->key);
    const bool keep = entry != nullptr && entry->repeatable;
    if (seen.insert(canonical_key(setting->key)).second || keep) last.push_back(*setting);
  }
  std::ranges::reverse(last);
  return last;
}

void apply_settings(const std::vector<Setting>& settings, Options& options, std::vector<Problem>& problems) {
  SettingsMerger(options, problems).apply(settings);
}

}  // namespace cxtrain
