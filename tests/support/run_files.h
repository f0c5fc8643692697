#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "support/temp_dir.h"

namespace cxtrain::test {

/// The option that makes a run write below this folder.
inline std::string in(const TempDir& dir) { return " --default_root_dir " + dir.path() + " "; }

/// What the first run in this folder wrote at its end.
inline nlohmann::json run_json(const TempDir& dir) {
  return nlohmann::json::parse(std::ifstream(dir.path() + "/cxtrain_logs/version_0/run.json"));
}

/// A checkpoint on the disk.
struct SavedCheckpoint {
  int step = -1;  ///< -1: there is none
  std::string path;
};

/// The one below this folder that has trained furthest, by its name.
inline SavedCheckpoint newest_checkpoint(const std::string& folder) {
  namespace fs = std::filesystem;
  SavedCheckpoint newest;
  std::error_code moved;  // one is renamed while it is looked at
  for (fs::recursive_directory_iterator entry(folder, moved), end; !moved && entry != end;
       entry.increment(moved)) {
    const std::string path = entry->path();
    const std::size_t step = path.rfind("step=");
    if (step == std::string::npos || !path.ends_with(".ckpt")) continue;
    const int number = std::atoi(path.c_str() + step + 5);
    if (number > newest.step) newest = {number, path};
  }
  return newest;
}

}  // namespace cxtrain::test
