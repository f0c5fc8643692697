#pragma once

#include <string>

#include "cxtrain/config/options.h"

namespace cxtrain {

/// Where ModelCheckpoint writes in spite of the run's folder (`dirpath`), as it was given; empty: into that.
std::string chosen_checkpoint_folder(const Options& options);

}  // namespace cxtrain
