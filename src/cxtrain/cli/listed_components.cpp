#include "cxtrain/cli/listed_components.h"

#include <algorithm>

namespace cxtrain {
namespace {

NamedOptions& entry_of(std::vector<NamedOptions>& list, const std::string& name) {
  const auto known =
      std::find_if(list.begin(), list.end(), [&](const auto& each) { return each.name == name; });
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

}  // namespace

bool apply_listed_component(const Setting& setting, Options& options, std::vector<Problem>& problems) {
  for (const ListedComponents& listed : kListedComponents) {
    const std::string prefix = std::string(listed.key) + ".";
    if (!setting.key.starts_with(prefix)) continue;
    const std::string rest = setting.key.substr(prefix.size());
    const std::size_t dot = rest.find('.');
    std::vector<NamedOptions>& list = options.*listed.list;
    if (dot == std::string::npos) {
      switch_component(setting, rest, list, problems);
    } else if (setting.value) {
      entry_of(list, rest.substr(0, dot)).args[rest.substr(dot + 1)] = *setting.value;
    } else {
      entry_of(list, rest.substr(0, dot)).args.erase(rest.substr(dot + 1));
    }
    return true;
  }
  return false;
}

}  // namespace cxtrain
