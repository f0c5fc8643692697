#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temp_dir.h"

namespace cxtrain::test {

/// The option that makes a run write below this folder.
inline std::string in(const TempDir& dir) { return " --default_root_dir " + dir.path() + " "; }

/// What the first run in this folder wrote at its end.
inline nlohmann::json run_json(const TempDir& dir) {
  return nlohmann::json::parse(std::ifstream(dir.path() + "/cxtrain_logs/version_0/run.json"));
}

}  // namespace cxtrain::test
