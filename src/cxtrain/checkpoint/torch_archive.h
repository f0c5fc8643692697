#pragma once

#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/weights.h"

namespace cxtrain {

/// The tensors of a zip archive that Python's or C++'s torch.save, Lightning or TorchScript wrote. It may
/// hold
///   * a dict of tensors: a state dict;
///   * a dict that has one under "state_dict" (Lightning's .ckpt), "model_state_dict" or "model";
///   * a module: scripted, or pickled as a whole. Its parameters and buffers are found by the names of its
///     attributes.
///
/// The pickle in it is read as data (checkpoint/pickle.h). Throws CheckpointError with the path and the
/// reason.
StoredWeights open_torch_archive(Filesystem& files, const std::string& path);

}  // namespace cxtrain
