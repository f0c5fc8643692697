#pragma once

#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/weights.h"

/// Weights as files of one kind. Both functions read and write one tensor after the other, so that memory
/// holds one. Others see the old file at `path` or the new one, never a part. They throw CheckpointError
/// where a tensor cannot be read or stored, and FileError where the file cannot be written.
namespace cxtrain {

/// A safetensors file.
void write_safetensors(Filesystem& files, const std::string& path, const StoredWeights& weights);

/// A file that Python's `torch.load(path, weights_only=True)` reads as a dict of tensors.
void write_torch_file(Filesystem& files, const std::string& path, const StoredWeights& weights);

}  // namespace cxtrain
