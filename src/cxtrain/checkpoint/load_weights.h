#pragma once

#include <torch/nn/module.h>

#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/name_map.h"

namespace cxtrain {

/// Copies the tensors that are stored at `path` (anything that `open_weights` knows: checkpoint/weights.h)
/// into the module's parameters and buffers of the same names; `names` makes the module's names of the stored
/// ones. Values are converted to the module's dtypes, and go where its tensors are. A tensor that the module
/// has under several names needs one of them.
///
/// Throws CheckpointError, before anything is changed, where the module has a tensor that is missing, lacks
/// one that is stored, or has one of another shape: all of these are told at once. Also when the file cannot
/// be read; where that happens halfway, some tensors have been replaced.
///
/// Every rank calls it for itself, with the same file, before `Trainer::fit` and its like: these send rank
/// 0's parameters to the others.
void load_weights(torch::nn::Module& module, const std::string& path, const NameMap& names = {},
                  Filesystem& files = real_filesystem());

}  // namespace cxtrain
