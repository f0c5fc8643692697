#pragma once

#include <nlohmann/json.hpp>

#include <fstream>
#include <set>
#include <stdexcept>
#include <string>

#include "cxtrain/doctor/report.h"

/// Recorded worlds (worlds/*.json), and changes to them.
namespace cxtrain::test {

using WorldJson = nlohmann::ordered_json;

inline WorldJson base_world(const std::string& name) {
  std::ifstream file(std::string(CXTRAIN_SOURCE_DIR) + "/tests/doctor/worlds/" + name + ".json");
  if (!file) throw std::runtime_error("no world " + name);
  return WorldJson::parse(file);
}

/// Sets what a JSON pointer leads to; '*' stands for every element of a list.
inline void set_at(WorldJson& world, const std::string& path, const WorldJson& value) {
  const std::size_t star = path.find("/*/");
  if (star == std::string::npos) {
    const WorldJson::json_pointer pointer(path);
    WorldJson& parent = world.at(pointer.parent_pointer());
    if (!value.is_null())
      parent[WorldJson::json_pointer("/" + pointer.back())] = value;
    else if (parent.is_array())
      parent.erase(static_cast<std::size_t>(std::stoul(pointer.back())));
    else
      parent.erase(pointer.back());
    return;
  }
  const std::string list = path.substr(0, star), rest = path.substr(star + 2);
  const std::size_t size = world.at(WorldJson::json_pointer(list)).size();
  for (std::size_t i = 0; i < size; ++i) set_at(world, list + "/" + std::to_string(i) + rest, value);
}

/// A base world with changes: an object of JSON pointers and their new values, null to take one away.
inline doctor::Recording changed_world(const std::string& base, const std::string& changes) {
  WorldJson world = base_world(base);
  const WorldJson all = WorldJson::parse(changes);
  for (const auto& [path, value] : all.items()) set_at(world, path, value);
  return doctor::parse_recording(world.dump(), base);
}

/// The checks whose findings are of this severity or a worse one.
inline std::set<std::string> checks_from(const doctor::Diagnosis& diagnosis, doctor::Severity least) {
  std::set<std::string> ids;
  for (const doctor::Finding& finding : diagnosis.findings) {
    if (finding.severity >= least) ids.insert(finding.check);
  }
  return ids;
}

inline const doctor::Finding& finding_of(const doctor::Diagnosis& diagnosis, const std::string& check) {
  for (const doctor::Finding& finding : diagnosis.findings) {
    if (finding.check == check) return finding;
  }
  throw std::runtime_error("no check " + check);
}

}  // namespace cxtrain::test
