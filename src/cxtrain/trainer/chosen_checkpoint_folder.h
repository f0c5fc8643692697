#pragma once

#include <string>

#include "cxtrain/config/options.h"

namespace cxtrain {

/// Where ModelCheckpoint writes in spite of the run's folder (`dirpath`), as it was given; empty: into that.
inline std::string chosen_checkpoint_folder(const Options& options) {
  const auto dirpath_of = [](const NamedOptions& callback) {
    const auto dirpath = callback.args.find("dirpath");
    return dirpath == callback.args.end() ? std::string() : dirpath->second;
  };
  // A callback of that name stands in the place of the one by default, whose arguments are defaults of its
  // own.
  for (const NamedOptions& callback : options.callbacks) {
    if (callback.name == options.checkpoint.name && callback.args.contains("dirpath"))
      return dirpath_of(callback);
  }
  return dirpath_of(options.checkpoint);
}

}  // namespace cxtrain
