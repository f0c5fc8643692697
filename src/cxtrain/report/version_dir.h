#pragma once

#include <string>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

/// Creates `default_root_dir`/cxtrain_logs/version_N with the next free N (one more than the highest there
/// is) and returns its path, which a crash leaves there. Runs that start at the same time get different ones.
/// One rank calls it. Throws ConfigError.
std::string make_version_dir(Filesystem& files, const std::string& default_root_dir);

}  // namespace cxtrain
