#include "cxtrain/plugin/registry.h"

#include <algorithm>

#include "cxtrain/base/text.h"
#include "cxtrain/config/did_you_mean.h"

namespace cxtrain {

void Registry::insert(Entry entry) {
  const std::pair key{entry.kind, entry.name};
  if (const auto existing = entries_.find(key); existing != entries_.end()) {
    throw PluginError("two plugins offer the " + entry.kind + " `" + entry.name + "`: " +
                          existing->second.origin + " and " + entry.origin + "; leave one of them out",
                      MessageCode::plugin_mismatch);
  }
  entries_.emplace(key, std::move(entry));
}

const Registry::Entry* Registry::find(std::string_view kind, std::string_view name) const {
  const auto found = entries_.find({std::string(kind), std::string(name)});
  return found == entries_.end() ? nullptr : &found->second;
}

const Registry::Entry& Registry::require(std::string_view kind, std::string_view name) const {
  if (const Entry* entry = find(kind, name)) return *entry;
  const std::vector<std::string> known = names(kind);
  const std::string near = nearest_name(name, known);
  throw PluginError("there is no " + std::string(kind) + " `" + std::string(name) +
                        "`; found: " + (known.empty() ? "none" : joined(known)) +
                        (near.empty() ? "" : "; did you mean " + near + "?"),
                    MessageCode::unknown_name);
}

std::vector<std::string> Registry::names(std::string_view kind) const {
  std::vector<std::string> result;
  for (const auto& [key, entry] : entries_) {
    if (key.first == kind) result.push_back(key.second);
  }
  return result;
}

bool Registry::has_origin(std::string_view origin) const {
  return std::ranges::any_of(entries_, [&](const auto& item) { return item.second.origin == origin; });
}

}  // namespace cxtrain
